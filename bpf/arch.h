/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What differs between the architectures. */
#ifndef MEMTRACK_ARCH_H
#define MEMTRACK_ARCH_H

#if defined(__TARGET_ARCH_x86)

#define REGS_IP(r) ((r)->ip)
#define REGS_SP(r) ((r)->sp)
#define REGS_FP(r) ((r)->bp)
#define REGS_RESULT(r) ((r)->ax)
/* A return has popped its address. */
#define RETURN_POPS 8

#define SYSCALL_NUMBER(r) ((long)(r)->orig_ax)
#define SYSCALL_ARG0(r) ((r)->di)
#define SYSCALL_ARG1(r) ((r)->si)
#define SYSCALL_ARG2(r) ((r)->dx)
#define SYSCALL_ARG3(r) ((r)->r10)
#define SYSCALL_ARG4(r) ((r)->r8)
#define NR_MMAP 9
#define NR_MPROTECT 10
#define NR_MUNMAP 11
#define NR_MREMAP 25
#define NR_PKEY_MPROTECT 329

/* System V psABI x86-64, figure 3.36. */
static __always_inline void registers_by_dwarf(struct pt_regs *r, __u64 *out)
{
	out[0] = r->ax;
	out[1] = r->dx;
	out[2] = r->cx;
	out[3] = r->bx;
	out[4] = r->si;
	out[5] = r->di;
	out[6] = r->bp;
	out[7] = r->sp;
	out[8] = r->r8;
	out[9] = r->r9;
	out[10] = r->r10;
	out[11] = r->r11;
	out[12] = r->r12;
	out[13] = r->r13;
	out[14] = r->r14;
	out[15] = r->r15;
	out[16] = r->ip;
}

/* Registers on which a canonical frame address can rest, besides sp. */
#define FOR_EACH_FRAME_REGISTER(r, use) \
	do {                            \
		use(3, (r)->bx);        \
		use(6, (r)->bp);        \
		use(12, (r)->r12);      \
		use(13, (r)->r13);      \
		use(14, (r)->r14);      \
		use(15, (r)->r15);      \
	} while (0)

#elif defined(__TARGET_ARCH_arm64)

#define REGS_IP(r) ((r)->pc)
#define REGS_SP(r) ((r)->sp)
#define REGS_FP(r) ((r)->regs[29])
#define REGS_RESULT(r) ((r)->regs[0])
#define RETURN_POPS 0

#define SYSCALL_NUMBER(r) ((long)(r)->syscallno)
#define SYSCALL_ARG0(r) ((r)->orig_x0)
#define SYSCALL_ARG1(r) ((r)->regs[1])
#define SYSCALL_ARG2(r) ((r)->regs[2])
#define SYSCALL_ARG3(r) ((r)->regs[3])
#define SYSCALL_ARG4(r) ((r)->regs[4])
#define NR_MMAP 222
#define NR_MPROTECT 226
#define NR_MUNMAP 215
#define NR_MREMAP 216
#define NR_PKEY_MPROTECT 288

/* AADWARF64 section 4.1. */
static __always_inline void registers_by_dwarf(struct pt_regs *r, __u64 *out)
{
#pragma unroll
	for (int i = 0; i < 31; i++)
		out[i] = r->regs[i];
	out[31] = r->sp;
	out[32] = r->pc;
}

#define FOR_EACH_FRAME_REGISTER(r, use)     \
	do {                                \
		use(19, (r)->regs[19]);     \
		use(20, (r)->regs[20]);     \
		use(21, (r)->regs[21]);     \
		use(22, (r)->regs[22]);     \
		use(23, (r)->regs[23]);     \
		use(24, (r)->regs[24]);     \
		use(25, (r)->regs[25]);     \
		use(26, (r)->regs[26]);     \
		use(27, (r)->regs[27]);     \
		use(28, (r)->regs[28]);     \
		use(29, (r)->regs[29]);     \
		use(30, (r)->regs[30]);     \
	} while (0)

#endif

#endif
