// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The kernel side of memtrack. README.md in this folder lists its parts. */
#include "vmlinux.h"

#include <bpf/bpf_helpers.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_tracing.h>

#ifndef NULL
#define NULL ((void *)0)
#endif

#include "abi.h"
#include "config.h"
#include "arch.h"
#include "maps.h"
#include "filter.h"
#include "stop.h"
#include "emit.h"
#include "scratch.h"
#include "key.h"
#include "stack.h"
#include "image.h"
#include "probe_allocator.h"
#include "probe_mapping.h"
#include "probe_process.h"

/* The helpers in use ask for a licence compatible with the GPL. */
char LICENSE[] SEC("license") = "Dual BSD/GPL";
