// SPDX-License-Identifier: BSD-3-Clause
// A memory copy that survives memory which is not there: instead of a signal (SIGSEGV, SIGBUS) the copy returns false.
// Used where a number from somebody else says what is copied: the provider captures what a WR names, the daemon reads
// files that applications may truncate. See sigaction(2), SA_SIGINFO.
//
// How: the copy is one leaf routine that keeps nothing on the stack; the handler recognises it by the instruction
// pointer and makes it return. Any other fault goes to the handler that was there before.
//
// DEVIATION: where a program replaces the handlers later, or blocks both signals in the thread that copies, memory that
// vanished raises the signal there instead of completing with an error. Only a program that unmaps memory it still uses
// can tell.
#pragma once

#include <cstddef>

namespace rocemu::guard {

// Takes SIGSEGV and SIGBUS, once; later calls do nothing. False: the system refused, and copy() is not guarded.
bool install();

// Ascending addresses. False when a byte could not be read or written; what was copied before it stays copied.
bool copy(void* to, const void* from, size_t bytes);

// Calls body(argument). False when it touched a byte that is not there: it was left at that instruction, with whatever it had
// done. So it owns nothing, takes no lock, allocates nothing and throws nothing.
bool run(void (*body)(void*), void* argument);

}  // namespace rocemu::guard
