// SPDX-License-Identifier: BSD-3-Clause
// guestd PORT: runs commands for the host of this guest. One TCP connection is one command:
//   host:  "SECONDS LENGTH\n" and LENGTH bytes for `sh -c`
//   guest: what the command writes (both streams), then "\n=exit N\n" and end of stream
// The command is ended with its process group when its time is over (N = 124) or when the host hangs up.
// Verbs programs poll without end and the guest has one CPU: commands run as SCHED_IDLE, below the kernel threads
// that carry their traffic. Linked statically.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kMaxCommand = 65536, kTimedOut = 124 };

static long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000L + t.tv_nsec / 1000000L;
}

static int read_exactly(int fd, char *to, size_t n)
{
    while (n) {
        ssize_t got = read(fd, to, n);
        if (got <= 0)
            return -1;
        to += got;
        n -= (size_t)got;
    }
    return 0;
}

static int read_request(int fd, int *seconds, char *command)
{
    char line[64];
    size_t used = 0;
    int length = 0;
    for (;;) {
        if (used == sizeof line - 1 || read_exactly(fd, line + used, 1))
            return -1;
        if (line[used] == '\n')
            break;
        used++;
    }
    line[used] = 0;
    if (sscanf(line, "%d %d", seconds, &length) != 2 || length <= 0 || length >= kMaxCommand)
        return -1;
    command[length] = 0;
    return read_exactly(fd, command, (size_t)length);
}

static pid_t start(int fd, const char *command)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    setsid();
    struct sched_param none = {0};
    sched_setscheduler(0, SCHED_IDLE, &none);
    signal(SIGPIPE, SIG_DFL);
    dup2(fd, 1);
    dup2(fd, 2);
    close(fd);
    if (getenv("GUEST_PRELOAD"))
        setenv("LD_PRELOAD", getenv("GUEST_PRELOAD"), 1);
    execl("/bin/sh", "sh", "-c", command, (char *)NULL);
    _exit(127);
}

static void serve(int fd)
{
    static char command[kMaxCommand];
    int seconds = 0, status = 0, code = -1;
    if (read_request(fd, &seconds, command))
        return;
    pid_t pid = start(fd, command);
    if (pid < 0)
        return;
    long end = now_ms() + seconds * 1000L;
    struct pollfd p[2] = {{(int)syscall(SYS_pidfd_open, pid, 0), POLLIN, 0}, {fd, POLLRDHUP, 0}};
    while (code < 0) {
        long left = end - now_ms();
        int n = left > 0 ? poll(p, 2, (int)left) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            code = kTimedOut;
        else if (p[0].revents)
            code = 0;
        else if (p[1].revents)
            code = kTimedOut;
    }
    if (code == kTimedOut)
        kill(-pid, SIGKILL);
    waitpid(pid, &status, 0);
    if (code == 0)
        code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    dprintf(fd, "\n=exit %d\n", code);
    shutdown(fd, SHUT_RDWR);
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGCHLD, SIG_IGN);
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((unsigned short)atoi(argv[1]))};
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (s < 0 || bind(s, (struct sockaddr *)&a, sizeof a) || listen(s, 16)) {
        perror("guestd");
        return 1;
    }
    for (;;) {
        int fd = accept4(s, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        if (fork() == 0) {
            signal(SIGCHLD, SIG_DFL);
            serve(fd);
            _exit(0);
        }
        close(fd);
    }
}
