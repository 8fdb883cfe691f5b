// The ELF entry point on aarch64. It must leave sp and x0 as the kernel set them (AAPCS64 Linux ABI):
// libc's _start takes argc from the one and a function pointer from the other.
// svc changes x0 only, so x9 carries it across.

    .section .rodata.outro_entry, "a"
    .balign 8
outro_all_signals:
    .quad   -1

    .section .bss.outro_entry, "aw", %nobits
    .balign 8
    .globl  outro_entry_mask
outro_entry_mask:
    .skip   8

    .section .text.outro_entry, "ax"
    .balign 4
    .globl  outro_entry
    .type   outro_entry, %function
outro_entry:
    mov     x9, x0
    mov     x8, #135                        // rt_sigprocmask
    mov     x0, #0                          // SIG_BLOCK
    adrp    x1, outro_all_signals
    add     x1, x1, :lo12:outro_all_signals
    adrp    x2, outro_entry_mask
    add     x2, x2, :lo12:outro_entry_mask
    mov     x3, #8                          // the kernel's sizeof(sigset_t)
    svc     #0
    mov     x0, x9
    b       _start
    .size   outro_entry, . - outro_entry
