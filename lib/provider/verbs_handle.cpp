// SPDX-License-Identifier: BSD-3-Clause
// Nothing: librocemu-verbs.so exists for the libraries it needs. See dlopen_hook.cpp.
