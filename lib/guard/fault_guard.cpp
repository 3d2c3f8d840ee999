// SPDX-License-Identifier: BSD-3-Clause
// See fault_guard.h. The copy is written by hand because the handler may resume it at `failed` from any of its
// instructions: it uses no stack, and only registers that a call may destroy.
#include "guard/fault_guard.h"

#include <atomic>
#include <cstdint>

#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

// bool rocemu_guard_copy(void* to (rdi), const void* from (rsi), size_t bytes (rdx))
// bool rocemu_guard_run(void (*body)(void*) (rdi), void* argument (rsi)): what a call must not destroy lies on the stack where
// the thread's rocemu_guard_stack says as long as the body runs.
asm(R"(
    .macro rocemu_guard_move128
    vmovups (%rsi), %ymm0
    vmovups 32(%rsi), %ymm1
    vmovups 64(%rsi), %ymm2
    vmovups 96(%rsi), %ymm3
    vmovups %ymm0, (%rdi)
    vmovups %ymm1, 32(%rdi)
    vmovups %ymm2, 64(%rdi)
    vmovups %ymm3, 96(%rdi)
    subq $-128, %rsi
    subq $-128, %rdi
    addq $-128, %rdx
    cmpq $128, %rdx
    .endm
    .text
    .p2align 6
    .type rocemu_guard_copy, @function
rocemu_guard_copy:
    .cfi_startproc
    cmpq $64, %rdx
    jb 2f
    cmpb $0, rocemu_guard_wide(%rip)
    je 1f
    cmpq $256, %rdx
    jb 1f
    cmpq $1024, %rdx
    jb 9f
    # Whole packets of a message lie one behind the other, on pages of their own: asked for across the page's end,
    # before the processor does so by itself. Never faults.
11: prefetchw 1024(%rdi)
    prefetchw 1088(%rdi)
    rocemu_guard_move128
    jae 11b
    jmp 12f
9:  rocemu_guard_move128
    jae 9b
12: vzeroupper
    cmpq $64, %rdx
    jb 2f
1:  movups (%rsi), %xmm0
    movups 16(%rsi), %xmm1
    movups 32(%rsi), %xmm2
    movups 48(%rsi), %xmm3
    movups %xmm0, (%rdi)
    movups %xmm1, 16(%rdi)
    movups %xmm2, 32(%rdi)
    movups %xmm3, 48(%rdi)
    addq $64, %rsi
    addq $64, %rdi
    subq $64, %rdx
    cmpq $64, %rdx
    jae 1b
2:  testb $32, %dl
    jz 3f
    movups (%rsi), %xmm0
    movups 16(%rsi), %xmm1
    movups %xmm0, (%rdi)
    movups %xmm1, 16(%rdi)
    addq $32, %rsi
    addq $32, %rdi
3:  testb $16, %dl
    jz 4f
    movups (%rsi), %xmm0
    movups %xmm0, (%rdi)
    addq $16, %rsi
    addq $16, %rdi
4:  testb $8, %dl
    jz 5f
    movq (%rsi), %rax
    movq %rax, (%rdi)
    addq $8, %rsi
    addq $8, %rdi
5:  testb $4, %dl
    jz 6f
    movl (%rsi), %eax
    movl %eax, (%rdi)
    addq $4, %rsi
    addq $4, %rdi
6:  andl $3, %edx
    jz 8f
7:  movb (%rsi), %al
    movb %al, (%rdi)
    incq %rsi
    incq %rdi
    decl %edx
    jnz 7b
8:  movl $1, %eax
    ret
rocemu_guard_copy_failed:
    cmpb $0, rocemu_guard_wide(%rip)
    je 10f
    vzeroupper
10: xorl %eax, %eax
    ret
    .cfi_endproc
    .size rocemu_guard_copy, .-rocemu_guard_copy
    .purgem rocemu_guard_move128

    .p2align 6
    .type rocemu_guard_run, @function
rocemu_guard_run:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    subq $8, %rsp
    movq rocemu_guard_stack@gottpoff(%rip), %rax
    movq %rsp, %fs:(%rax)
    movq %rdi, %rax
    movq %rsi, %rdi
    call *%rax
    movl $1, %eax
20: movq rocemu_guard_stack@gottpoff(%rip), %rcx
    movq $0, %fs:(%rcx)
    addq $8, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
rocemu_guard_run_failed:
    cmpb $0, rocemu_guard_wide(%rip)
    je 21f
    vzeroupper
21: cld
    xorl %eax, %eax
    jmp 20b
    .size rocemu_guard_run, .-rocemu_guard_run

    .data
    .type rocemu_guard_wide, @object
rocemu_guard_wide:
    .byte 0
    .size rocemu_guard_wide, 1
    .text
)");

extern "C" {
bool rocemu_guard_copy(void* to, const void* from, size_t bytes);
extern bool rocemu_guard_wide;  // the CPU has AVX; written once, before the first copy
void rocemu_guard_copy_failed();
bool rocemu_guard_run(void (*body)(void*), void* argument);
void rocemu_guard_run_failed();
__thread void* rocemu_guard_stack __attribute__((tls_model("initial-exec"))) = nullptr;
// Of AddressSanitizer, where that is: frames were left without its knowledge.
void __asan_handle_no_return() __attribute__((weak));
}

namespace rocemu::guard {
namespace {

struct sigaction old_segv, old_bus;

// Hands a signal that is not ours to whoever had it before us.
void pass_on(int signal, siginfo_t* info, void* context) {
    const struct sigaction& old = signal == SIGBUS ? old_bus : old_segv;
    if ((old.sa_flags & SA_SIGINFO) != 0) return old.sa_sigaction(signal, info, context);
    if (old.sa_handler != SIG_DFL && old.sa_handler != SIG_IGN) return old.sa_handler(signal);
    if (old.sa_handler == SIG_IGN && info->si_code <= 0) return;  // sent by a process: ignored, as it was
    // The fault comes again when the instruction is tried again, and then ends the process as it would have without us.
    struct sigaction plain = {};
    plain.sa_handler = SIG_DFL;
    sigaction(signal, &plain, nullptr);
    if (info->si_code <= 0) raise(signal);
}

void on_fault(int signal, siginfo_t* info, void* context) {
    greg_t& at = static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RIP];
    const auto failed = reinterpret_cast<greg_t>(&rocemu_guard_copy_failed);
    if (at >= reinterpret_cast<greg_t>(&rocemu_guard_copy) && at < failed) {
        at = failed;
        return;
    }
    if (rocemu_guard_stack != nullptr && info->si_code > 0) {  // raised by what the body does, not sent by somebody
        static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_RSP] = reinterpret_cast<greg_t>(rocemu_guard_stack);
        at = reinterpret_cast<greg_t>(&rocemu_guard_run_failed);
        return;
    }
    pass_on(signal, info, context);
}

bool take(int signal, struct sigaction& old) {
    if (sigaction(signal, nullptr, &old) != 0) return false;
    struct sigaction ours = {};
    ours.sa_sigaction = on_fault;
    ours.sa_mask = old.sa_mask;
    // On the alternate stack where a thread has one: a handler for stack overflow may be behind us.
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | (old.sa_flags & (SA_NODEFER | SA_RESTART));
    return sigaction(signal, &ours, nullptr) == 0;
}

std::atomic<bool> installed{false};

void install_once() {
    __builtin_cpu_init();
    rocemu_guard_wide = __builtin_cpu_supports("avx");
    installed = take(SIGSEGV, old_segv) && take(SIGBUS, old_bus);
}

}  // namespace

bool install() {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_once);
    return installed;
}

bool copy(void* to, const void* from, size_t bytes) { return rocemu_guard_copy(to, from, bytes); }

bool run(void (*body)(void*), void* argument) {
    if (rocemu_guard_run(body, argument)) return true;
    if (__asan_handle_no_return != nullptr) __asan_handle_no_return();
    return false;
}

}  // namespace rocemu::guard
