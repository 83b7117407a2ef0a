/* SPDX-License-Identifier: Apache-2.0
 *
 * A probe for every form of operand that an assembler's note can have, and one made by sys/sdt.h itself; each is hit 101
 * times. Usage: usdt_operands [wait]. Speaks as handshake.py says. Answer: {"hits": 101, "pointer": "0x…"}.
 */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/sdt.h>
#include <unistd.h>

#define HITS 101

static volatile int64_t counter = 7;
static volatile int64_t table[4] = {11, -13, 17, 19};
int64_t global_counter = 23;

/* sys/sdt.h chooses places by itself; here they are chosen. A register has one % in the note and two here. */
#define NOTE(name, operands)                       \
    "990: nop\n"                                   \
    ".pushsection .note.stapsdt, \"\", \"note\"\n" \
    ".balign 4\n"                                  \
    ".4byte 992f - 991f, 994f - 993f, 3\n"         \
    "991: .asciz \"stapsdt\"\n"                    \
    "992: .balign 4\n"                             \
    "993: .8byte 990b, _.stapsdt.base, 0\n"        \
    ".asciz \"operands\"\n"                        \
    ".asciz \"" name "\"\n"                        \
    ".asciz \"" operands "\"\n"                    \
    "994: .balign 4\n"                             \
    ".popsection\n"

#ifdef __PIE__
#define ABSOLUTE ""
#else
#define ABSOLUTE " 8@$global_counter 8@global_counter -8@table+8 8@table(,%%rcx,8)"
#endif

static void hit_registers(void) {
    register uint64_t r8 __asm__("r8") = 0xffffffff00000005, r9 __asm__("r9") = (uint64_t)-6;
    register uint64_t r10 __asm__("r10") = 0x107, r11 __asm__("r11") = 0x50008, r12 __asm__("r12") = (uint64_t)-9;
    __asm__ volatile(NOTE("registers",
                          "-4@%%eax 1@%%bh -1@%%bl 2@%%cx -2@%%dx 1@%%sil 8@%%rdi 4@%%r8d -8@%%r9 1@%%r10b "
                          "2@%%r11w -4@%%r12d")::"a"(0xdead0000fffffff9),
                     "b"(0x02ffull), "c"(0x10003), "d"(0x1fffc), "S"(0x3fe), "D"(0x123456789abcull), "r"(r8), "r"(r9),
                     "r"(r10), "r"(r11), "r"(r12));
}

static void hit_memory(void) {
    __asm__ volatile(NOTE("memory", "8@(%%rbx) -8@8(%%rbx) 8@(%%rbx,%%rcx,8) -4@4(%%rbx,%%rcx,2) 8@(,%%rdx,4) "
                                    "8@counter(%%rip) -8@table+8(%%rip) 8@-8+table+32(%%rip) 8@global_counter(%%rip) "
                                    "8@8(%%rsi) 8f@%%xmm0 1@16(%%rbx)")::"b"(table),
                     "c"(2ull), "d"((uintptr_t)table / 4), "S"(0ull), "m"(counter), "m"(global_counter));
}

static void hit_constants(void) {
    __asm__ volatile(NOTE("constants", "8@$5 -4@$-3 8@$0x10 1@$257 -1@$255 8@$-1" ABSOLUTE)::"c"(3ull), "m"(table),
                     "m"(global_counter));
}

static void hit_header(int i) {
    DTRACE_PROBE9(operands, header, (char)-1, (unsigned char)255, (short)-2, (unsigned)3000000000u, -4l,
                  (unsigned long)i, (void *)table, 1 == i, 2.5);
}

int main(int argc, char **argv) {
    printf("ready {\"pid\": %d}\n", (int)getpid());
    fflush(stdout);
    if (argc > 1 && strcmp(argv[1], "wait") == 0)
        (void)getchar();
    for (int i = 0; i < HITS; i++) {
        hit_registers();
        hit_memory();
        hit_constants();
        hit_header(1);
    }
    printf("{\"hits\": %d, \"pointer\": \"%p\"}\n", HITS, (void *)table);
    return 0;
}
