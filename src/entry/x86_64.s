# The ELF entry point on x86_64. It must leave %rsp and %rdx as the kernel set them (System V ABI,
# "Process Initialization"): libc's _start takes argc from the one and a function pointer from the other.
# The syscall instruction changes rax, rcx and r11 only, so r8 carries rdx across it.

    .section .rodata.outro_entry, "a"
    .balign 8
outro_all_signals:
    .quad   -1

    .section .bss.outro_entry, "aw", @nobits
    .balign 8
    .globl  outro_entry_mask
outro_entry_mask:
    .skip   8

    .section .text.outro_entry, "ax"
    .globl  outro_entry
    .type   outro_entry, @function
outro_entry:
    mov     r8, rdx
    mov     eax, 14                         # rt_sigprocmask
    xor     edi, edi                        # SIG_BLOCK
    lea     rsi, [rip + outro_all_signals]
    lea     rdx, [rip + outro_entry_mask]
    mov     r10d, 8                         # the kernel's sizeof(sigset_t)
    syscall
    mov     rdx, r8
    jmp     _start
    .size   outro_entry, . - outro_entry
