// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#define PAGE_SIZE 4096UL /* sizes the ring buffer; the kernel rounds to its own page */
