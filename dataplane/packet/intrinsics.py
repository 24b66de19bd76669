"""Unaligned loads, stores and copies on arrays of bytes, as LLVM instructions without bounds checks.

`memory` contains the checked forms that all other code uses.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _pointer(context, builder, signature, arguments, bits):
    """Return a pointer to an integer of `bits` bits at byte `arguments[1]` of the array `arguments[0]`."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    at = builder.gep(builder.bitcast(array.data, ir.IntType(8).as_pointer()), [arguments[1]])
    return builder.bitcast(at, ir.IntType(bits).as_pointer())


def make_load(bits: int, swapped: bool, ordering: str | None = None) -> Any:
    """Return an intrinsic `load(memory, at)` of `bits` bits, zero-extended to int64."""

    @intrinsic
    def load(typing_context, memory, at):
        def generate(context, builder, signature, arguments):
            pointer = _pointer(context, builder, signature, arguments, bits)
            if ordering is not None:
                value = builder.load_atomic(pointer, ordering, bits // 8)
            else:
                value = builder.load(pointer, align=1)
            if swapped:
                value = builder.bswap(value)
            return builder.zext(value, ir.IntType(64)) if bits < 64 else value

        return types.int64(memory, types.int64), generate

    return load


def make_store(bits: int, swapped: bool, ordering: str | None = None) -> Any:
    """Return an intrinsic `store(memory, at, value)` of `bits` bits."""

    @intrinsic
    def store(typing_context, memory, at, value):
        def generate(context, builder, signature, arguments):
            pointer = _pointer(context, builder, signature, arguments, bits)
            word = arguments[2] if bits == 64 else builder.trunc(arguments[2], ir.IntType(bits))
            if swapped:
                word = builder.bswap(word)
            if ordering is not None:
                builder.store_atomic(word, pointer, ordering, bits // 8)
            else:
                builder.store(word, pointer, align=1)
            return context.get_dummy_value()

        return types.void(memory, types.int64, types.int64), generate

    return store


@intrinsic
def move(typing_context, memory, to, source, at, count):
    """Copy `count` bytes; the ranges may overlap."""

    def generate(context, builder, signature, arguments):
        byte = ir.IntType(8).as_pointer()
        target = context.make_array(signature.args[0])(context, builder, arguments[0])
        origin = context.make_array(signature.args[2])(context, builder, arguments[2])
        to_pointer = builder.gep(builder.bitcast(target.data, byte), [arguments[1]])
        from_pointer = builder.gep(builder.bitcast(origin.data, byte), [arguments[3]])
        cgutils.raw_memmove(builder, to_pointer, from_pointer, arguments[4], itemsize=1)
        return context.get_dummy_value()

    return types.void(memory, types.int64, source, types.int64, types.int64), generate


def make_prefetch(is_for_writing: bool) -> Any:
    """Return an intrinsic `prefetch(array, index, offset)` that prefetches a cache line for reading or writing.

    The line is that of byte `offset` of the element; any address is allowed.
    """

    @intrinsic
    def prefetch(typing_context, array, index, offset):
        def generate(context, builder, signature, arguments):
            found = context.make_array(signature.args[0])(context, builder, arguments[0])
            byte = ir.IntType(8).as_pointer()
            item = context.get_abi_sizeof(context.get_data_type(signature.args[0].dtype))
            start = builder.add(builder.mul(arguments[1], ir.IntType(64)(item)), arguments[2])
            at = builder.gep(builder.bitcast(found.data, byte), [start])
            word = ir.IntType(32)
            kind = ir.FunctionType(ir.VoidType(), [byte, word, word, word])
            function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
            builder.call(function, [at, word(int(is_for_writing)), word(3), word(1)])  # to keep, data
            return context.get_dummy_value()

        if array.layout != "C":
            return None
        return types.void(array, types.int64, types.int64), generate

    return prefetch


prefetch, prefetch_to_write = make_prefetch(False), make_prefetch(True)


@intrinsic
def first_of_eight(typing_context, words, at, key):
    """Return the position of the first of eight words from `at` on with the same upper half as `key`; 8 for none.

    All eight are compared at once, because a branch on the position could not be predicted.
    """

    def generate(context, builder, signature, arguments):
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        wide, word, narrow = ir.VectorType(ir.IntType(64), 8), ir.IntType(64), ir.IntType(16)
        eight = builder.load(builder.bitcast(builder.gep(array.data, [arguments[1]]), wide.as_pointer()), align=8)
        keys = ir.Constant(wide, ir.Undefined)
        for place in range(8):
            keys = builder.insert_element(keys, arguments[2], ir.IntType(32)(place))
        limit = ir.Constant(wide, [word(1 << 32)] * 8)
        equal = builder.icmp_unsigned("<", builder.xor(eight, keys), limit)
        bits = builder.zext(builder.bitcast(equal, ir.IntType(8)), narrow)
        return builder.zext(builder.cttz(builder.or_(bits, narrow(1 << 8)), ir.IntType(1)(1)), word)

    return types.int64(words, types.int64, types.int64), generate


@intrinsic
def address_of(typing_context, memory, at):
    """Return the address of byte `at` of an array of bytes, for a system call."""

    def generate(context, builder, signature, arguments):
        return builder.ptrtoint(_pointer(context, builder, signature, arguments, 8), ir.IntType(64))

    return types.int64(memory, types.int64), generate
