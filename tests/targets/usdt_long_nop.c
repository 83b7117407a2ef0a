/* SPDX-License-Identifier: Apache-2.0
 *
 * A probe whose nop has five bytes, in a leaf function that keeps a value in the red zone, below the stack pointer.
 * Usage: usdt_long_nop [wait]. Speaks as handshake.py says. Answer: {"calls": 1009, "wrong": how many lost the value}.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/sdt.h>
#include <unistd.h>

#define CALLS 1009

/* The note as sys/sdt.h makes it, for a nop of our own. */
uint64_t keep(uint64_t value);
__asm__(".text\n"
        ".globl keep\n"
        ".type keep, @function\n"
        "keep:\n"
        "mov %rdi, -8(%rsp)\n"
        "990: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n" /* nopl 0(%rax,%rax) */
        "mov -8(%rsp), %rax\n"
        "ret\n"
        ".size keep, . - keep\n"
        ".pushsection .note.stapsdt, \"\", \"note\"\n"
        ".balign 4\n"
        ".4byte 992f - 991f, 994f - 993f, 3\n"
        "991: .asciz \"stapsdt\"\n"
        "992: .balign 4\n"
        "993: .8byte 990b, _.stapsdt.base, 0\n"
        ".asciz \"long\"\n"
        ".asciz \"kept\"\n"
        ".asciz \"8@%rdi\"\n"
        "994: .balign 4\n"
        ".popsection\n");

int main(int argc, char **argv) {
    DTRACE_PROBE(long, begun); /* brings in what the note above refers to */
    printf("ready {\"pid\": %d}\n", (int)getpid());
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "wait") == 0)
        (void)getchar();
    int wrong = 0;
    for (uint64_t i = 0; i < CALLS; i++)
        wrong += keep(i) != i;
    printf("{\"calls\": %d, \"wrong\": %d}\n", CALLS, wrong);
    return 0;
}
