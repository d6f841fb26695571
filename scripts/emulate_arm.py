"""Runs a static Linux program for 64-bit ARM in an emulated processor: python scripts/emulate_arm.py PROGRAM [ARGUMENT...]

Knows the few system calls that a program needs which only computes and prints, and no others: no files, threads or signals.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

from unicorn import UC_ARCH_ARM64, UC_HOOK_INTR, UC_MODE_ARM, Uc, UcError, arm64_const as arm64  # pip install unicorn

PAGE = 4096
HEAP, STACK, STACK_SIZE = 0x10_0000_0000, 0x7000_0000_0000, 8 << 20
ARGUMENTS = (arm64.UC_ARM64_REG_X0, arm64.UC_ARM64_REG_X1, arm64.UC_ARM64_REG_X2)
EXIT, EXIT_GROUP, WRITE, WRITEV, MMAP, MUNMAP, IOCTL = 93, 94, 64, 66, 222, 215, 29
IGNORED = {96, 99, 131, 134, 135, 178, 214, 226, 233}  # about threads, signals, and memory that may stay as it is
REFUSED = {123}  # how many processors there are
NOT_A_TERMINAL, NOT_IMPLEMENTED = 25, 38


def up(address: int) -> int:
    return -(-address // PAGE) * PAGE


class Machine:
    """A processor with its memory and one program in it."""

    def __init__(self, program: bytes, arguments: list[str]) -> None:
        self.processor = Uc(UC_ARCH_ARM64, UC_MODE_ARM)
        self.heap = HEAP
        self.exit_code: int | None = None
        self.entry, headers = struct.unpack_from("<QQ", program, 24)
        header_size, n_headers = struct.unpack_from("<HH", program, 54)
        segments = [struct.unpack_from("<IIQQQQQQ", program, headers + i * header_size) for i in range(n_headers)]
        segments = [segment for segment in segments if segment[0] == 1]  # those that are loaded
        first = min(segment[3] // PAGE * PAGE for segment in segments)
        self.processor.mem_map(first, up(max(segment[3] + segment[6] for segment in segments)) - first)
        for _, _, offset, address, _, size, _, _ in segments:
            self.processor.mem_write(address, program[offset : offset + size])
        self._fill_stack(arguments, [(3, first + headers), (4, header_size), (5, n_headers), (6, PAGE), (9, self.entry)])
        self.processor.reg_write(arm64.UC_ARM64_REG_CPACR_EL1, 3 << 20)  # lets it use floating point and vectors
        self.processor.hook_add(UC_HOOK_INTR, self._system_call)

    def _fill_stack(self, arguments: list[str], auxiliary: list[tuple[int, int]]) -> None:
        self.processor.mem_map(STACK, STACK_SIZE)
        strings = STACK + STACK_SIZE - PAGE
        pointers, address = [], strings + 16
        for argument in arguments:
            pointers.append(address)
            self.processor.mem_write(address, argument.encode() + b"\0")
            address += len(argument.encode()) + 1
        pairs = [*auxiliary, (25, strings), (0, 0)]  # the second last: sixteen bytes to take as random
        words = [len(arguments), *pointers, 0, 0, *(word for pair in pairs for word in pair)]
        top = strings - PAGE
        self.processor.mem_write(top, struct.pack(f"<{len(words)}Q", *words))
        self.processor.reg_write(arm64.UC_ARM64_REG_SP, top)

    def run(self) -> int:
        self.processor.emu_start(self.entry, 0)
        assert self.exit_code is not None
        return self.exit_code

    def _system_call(self, processor: Uc, _interrupt: int, _data: object) -> None:
        number = processor.reg_read(arm64.UC_ARM64_REG_X8)
        first, second, third = (processor.reg_read(register) for register in ARGUMENTS)
        result = 0
        if number in (EXIT, EXIT_GROUP):
            self.exit_code = first
            processor.emu_stop()
        elif number == WRITE:
            result = self._print(second, third)
        elif number == WRITEV:
            for i in range(third):
                result += self._print(*struct.unpack("<QQ", processor.mem_read(second + 16 * i, 16)))
        elif number == MMAP:
            result, self.heap = self.heap, self.heap + up(second)
            processor.mem_map(result, up(second))
        elif number == MUNMAP:
            processor.mem_unmap(first, up(second))
        elif number == IOCTL:
            result = -NOT_A_TERMINAL
        elif number not in IGNORED:
            if number not in REFUSED:
                print(f"emulate_arm.py: the program made the system call {number}, which is not known here", file=sys.stderr)
            result = -NOT_IMPLEMENTED
        processor.reg_write(arm64.UC_ARM64_REG_X0, result & (1 << 64) - 1)

    def _print(self, address: int, size: int) -> int:
        sys.stdout.write(bytes(self.processor.mem_read(address, size)).decode())
        return size


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    machine = Machine(Path(sys.argv[1]).read_bytes(), sys.argv[1:])
    try:
        code = machine.run()
    except UcError as error:
        where = machine.processor.reg_read(arm64.UC_ARM64_REG_PC)
        sys.exit(f"error: {sys.argv[1]} stopped at {where:#x}: {error}")
    sys.exit(code)


if __name__ == "__main__":
    main()
