"""ChaCha20, Poly1305 (RFC 8439) and the table of the discrete Gaussian as Triton kernels: integers alone.

`device.py` launches them. Words have 32 or 64 bits without a sign; tensors of PyTorch hold the same bits as
int32 and int64. Nothing here depends on the order in which programs run.
"""

import triton  # type: ignore[import-untyped]
import triton.language as tl  # type: ignore[import-untyped]

_OPEN = tl.constexpr(-(1 << 15))  # as in `discrete_gaussian.py`
_LIMB = tl.constexpr((1 << 26) - 1)  # numbers modulo 2^130 - 5 are five limbs of 26 bits


@triton.jit  # type: ignore[untyped-decorator]
def _rotated(word: tl.tensor, bits: tl.constexpr) -> tl.tensor:
    return (word << bits) | (word >> (32 - bits))


@triton.jit  # type: ignore[untyped-decorator]
def _quarter_round(a: tl.tensor, b: tl.tensor, c: tl.tensor, d: tl.tensor) -> tuple[tl.tensor, ...]:
    a += b
    d = _rotated(d ^ a, 16)
    c += d
    b = _rotated(b ^ c, 12)
    a += b
    d = _rotated(d ^ a, 8)
    c += d
    b = _rotated(b ^ c, 7)
    return a, b, c, d


@triton.jit  # type: ignore[untyped-decorator]
def _block(
    key: tl.tensor, counter: tl.tensor, n0: tl.tensor, n1: tl.tensor, n2: tl.tensor
) -> tuple[tl.tensor, ...]:
    """The 16 words of each lane's block (RFC 8439, 2.3); key: 8 words in memory; n0 to n2: the nonce."""
    zero = counter ^ counter
    a0, a1, a2, a3 = zero + 0x61707865, zero + 0x3320646E, zero + 0x79622D32, zero + 0x6B206574
    b0, b1, b2, b3 = _key(key, zero), _key(key + 1, zero), _key(key + 2, zero), _key(key + 3, zero)
    c0, c1, c2, c3 = _key(key + 4, zero), _key(key + 5, zero), _key(key + 6, zero), _key(key + 7, zero)
    d0, d1, d2, d3 = counter, zero + n0, zero + n1, zero + n2
    for _ in range(10):
        a0, b0, c0, d0 = _quarter_round(a0, b0, c0, d0)
        a1, b1, c1, d1 = _quarter_round(a1, b1, c1, d1)
        a2, b2, c2, d2 = _quarter_round(a2, b2, c2, d2)
        a3, b3, c3, d3 = _quarter_round(a3, b3, c3, d3)
        a0, b1, c2, d3 = _quarter_round(a0, b1, c2, d3)
        a1, b2, c3, d0 = _quarter_round(a1, b2, c3, d0)
        a2, b3, c0, d1 = _quarter_round(a2, b3, c0, d1)
        a3, b0, c1, d2 = _quarter_round(a3, b0, c1, d2)
    return (
        a0 + 0x61707865,
        a1 + 0x3320646E,
        a2 + 0x79622D32,
        a3 + 0x6B206574,
        b0 + _key(key, zero),
        b1 + _key(key + 1, zero),
        b2 + _key(key + 2, zero),
        b3 + _key(key + 3, zero),
        c0 + _key(key + 4, zero),
        c1 + _key(key + 5, zero),
        c2 + _key(key + 6, zero),
        c3 + _key(key + 7, zero),
        d0 + counter,
        d1 + n0,
        d2 + n1,
        d3 + n2,
    )


@triton.jit  # type: ignore[untyped-decorator]
def _key(word: tl.tensor, zero: tl.tensor) -> tl.tensor:
    return zero + tl.load(word).to(tl.uint32, bitcast=True)


@triton.jit  # type: ignore[untyped-decorator]
def keystream(
    out: tl.tensor,
    key: tl.tensor,
    start: tl.tensor,
    number: tl.tensor,
    num_blocks: tl.tensor,
    lanes: tl.constexpr,
) -> None:
    """Blocks start, start + 1, ... of stream `number`; out: 16 words each; start: one int64 in memory."""
    block = tl.program_id(0).to(tl.int64) * lanes + tl.arange(0, lanes)
    counter = (tl.load(start) + block).to(tl.uint32)
    words = _block(key, counter, number, 0, 0)
    for place in tl.static_range(16):
        word = words[place].to(tl.int32, bitcast=True)
        tl.store(out + block * 16 + place, word, mask=block < num_blocks)


@triton.jit  # type: ignore[untyped-decorator]
def derived_key(out: tl.tensor, key: tl.tensor, digest: tl.tensor, lanes: tl.constexpr) -> None:
    """`Randomness.keyed_by`: eight words of the block whose counter and nonce are the digest's four words."""
    lane = tl.arange(0, lanes)
    zero = (lane ^ lane).to(tl.uint32)
    words = _block(
        key, _key(digest, zero), _key(digest + 1, zero), _key(digest + 2, zero), _key(digest + 3, zero)
    )
    for place in tl.static_range(8):
        tl.store(out + place + lane, words[place].to(tl.int32, bitcast=True), mask=lane < 1)


@triton.jit  # type: ignore[untyped-decorator]
def _word(key: tl.tensor, number: tl.constexpr, index: tl.tensor) -> tl.tensor:
    """Word `index` of 64 bits of stream `number`, for each lane."""
    words = _block(key, (index // 8).to(tl.uint32), number, 0, 0)
    found = (index ^ index).to(tl.uint64)
    for place in tl.static_range(8):
        word = words[2 * place].to(tl.uint64) | (words[2 * place + 1].to(tl.uint64) << 32)
        found = tl.where(index % 8 == place, word, found)
    return found


@triton.jit  # type: ignore[untyped-decorator]
def _unsigned(word: tl.tensor) -> tl.tensor:
    return word.to(tl.uint64, bitcast=True)


@triton.jit  # type: ignore[untyped-decorator]
def count_open(
    bits: tl.tensor, first: tl.tensor, counts: tl.tensor, num: tl.tensor, lanes: tl.constexpr
) -> None:
    """counts[program]: for how many of its lookups the first 16 bits do not decide."""
    place = tl.program_id(0).to(tl.int64) * lanes + tl.arange(0, lanes)
    bit = tl.load(bits + place, mask=place < num, other=0).to(tl.int32) & 0xFFFF
    is_open = (tl.load(first + bit) == _OPEN) & (place < num)
    tl.store(counts + tl.program_id(0), tl.sum(is_open.to(tl.int32), 0))


@triton.jit  # type: ignore[untyped-decorator]
def look_up(
    bits: tl.tensor,
    further: tl.tensor,
    key: tl.tensor,
    first: tl.tensor,
    below: tl.tensor,
    high: tl.tensor,
    low: tl.tensor,
    offsets: tl.tensor,
    used: tl.tensor,
    out: tl.tensor,
    num: tl.tensor,
    room: tl.tensor,
    thresholds: tl.tensor,
    least: tl.tensor,
    steps: tl.constexpr,
    lanes: tl.constexpr,
) -> None:
    """The number of each lookup, as `CumulativeTable.draw`.

    bits: 16 of each. further: words of stream 1 from block used // 8 on; those beyond `room` are computed
    here. offsets[program]: how many lookups before it are open; used: how many before `bits`.
    """
    place = tl.program_id(0).to(tl.int64) * lanes + tl.arange(0, lanes)
    bit = tl.load(bits + place, mask=place < num, other=0).to(tl.int32) & 0xFFFF
    number = tl.load(first + bit)
    is_open = (number == _OPEN) & (place < num)
    rank = tl.load(offsets + tl.program_id(0)) + tl.cumsum(is_open.to(tl.int64), 0) - 1
    before = tl.load(used)
    there = is_open & (before % 8 + rank < room)
    word = _unsigned(tl.load(further + before % 8 + rank, mask=there, other=0))
    if tl.max((is_open & (there == 0)).to(tl.int32), 0) > 0:
        word = tl.where(there, word, _word(key, 1, before + rank))
    value = (bit.to(tl.uint64) << 48) | (word >> 16)
    found = tl.load(below + bit)  # at least so many thresholds are below, and fewer than `end` are
    end = tl.load(below + bit + 1)
    for _ in range(steps):
        middle = (found + end) // 2
        searching = is_open & (found < end)
        less = _unsigned(tl.load(high + middle, mask=searching, other=0)) < value
        end = tl.where(searching & (less == 0), middle, end)
        found = tl.where(searching & less, middle + 1, found)
    undecided = is_open & (found < thresholds)
    undecided &= _unsigned(tl.load(high + found, mask=undecided, other=0)) == value
    if tl.max(undecided.to(tl.int32), 0) > 0:  # once in 2^50 lookups
        last = _word(key, 2, before + rank)
        while tl.max(undecided.to(tl.int32), 0) > 0:
            undecided &= _unsigned(tl.load(low + found, mask=undecided, other=0)) <= last
            found += undecided.to(tl.int32)
            undecided &= found < thresholds
            undecided &= _unsigned(tl.load(high + found, mask=undecided, other=0)) == value
    number = tl.where(is_open, found + least, number.to(tl.int32))
    tl.store(out + place, number.to(tl.int16), mask=place < num)


@triton.jit  # type: ignore[untyped-decorator]
def _times(
    h0: tl.tensor, h1: tl.tensor, h2: tl.tensor, h3: tl.tensor, h4: tl.tensor, power: tl.tensor
) -> tuple[tl.tensor, ...]:
    """h times power modulo 2^130 - 5, not reduced below it; limbs below 2^27, as is the result.

    A product of limbs, times 5, is below 2^27 2^26 5 < 2^56, and the sum of five fits 64 bits.
    """
    r0, r1, r2 = tl.load(power), tl.load(power + 1), tl.load(power + 2)
    r3, r4 = tl.load(power + 3), tl.load(power + 4)
    d0 = h0 * r0 + (h1 * r4 + h2 * r3 + h3 * r2 + h4 * r1) * 5
    d1 = h0 * r1 + h1 * r0 + (h2 * r4 + h3 * r3 + h4 * r2) * 5
    d2 = h0 * r2 + h1 * r1 + h2 * r0 + (h3 * r4 + h4 * r3) * 5
    d3 = h0 * r3 + h1 * r2 + h2 * r1 + h3 * r0 + h4 * r4 * 5
    d4 = h0 * r4 + h1 * r3 + h2 * r2 + h3 * r1 + h4 * r0
    return _carried(d0, d1, d2, d3, d4)  # type: ignore[no-any-return]


@triton.jit  # type: ignore[untyped-decorator]
def _carried(
    h0: tl.tensor, h1: tl.tensor, h2: tl.tensor, h3: tl.tensor, h4: tl.tensor
) -> tuple[tl.tensor, ...]:
    """The same number, with what exceeds 26 bits of a limb carried on to the next, and 2^130 as 5."""
    h1 += h0 >> 26
    h2 += h1 >> 26
    h3 += h2 >> 26
    h4 += h3 >> 26
    h0 = (h0 & _LIMB) + (h4 >> 26) * 5
    h1 = (h1 & _LIMB) + (h0 >> 26)
    return h0 & _LIMB, h1, h2 & _LIMB, h3 & _LIMB, h4 & _LIMB


@triton.jit  # type: ignore[untyped-decorator]
def fold(
    values: tl.tensor,
    out: tl.tensor,
    power: tl.tensor,
    num: tl.tensor,
    groups: tl.tensor,
    padding: tl.tensor,
    message: tl.constexpr,
    size: tl.constexpr,
    lanes: tl.constexpr,
) -> None:
    """Horner's rule for each group of `size` values: out[g] is the sum of value[g size + k] power^(size-1-k).

    `padding` zeros stand before the first value. values: limbs, (5, num); or, with `message`, num int64
    numbers, two of which are a block of Poly1305, marked by a bit behind its last byte.
    """
    group = tl.program_id(0).to(tl.int64) * lanes + tl.arange(0, lanes)
    zero = group ^ group
    h0, h1, h2, h3, h4 = zero, zero, zero, zero, zero
    for k in range(size):
        place = group * size + k - padding
        there = (place >= 0) & (group < groups)
        h0, h1, h2, h3, h4 = _times(h0, h1, h2, h3, h4, power)
        if message:
            both = 2 * place + 1 < num
            left = _unsigned(tl.load(values + 2 * place, mask=there, other=0))
            right = _unsigned(tl.load(values + 2 * place + 1, mask=there & both, other=0))
            mark = tl.where(there, 1, 0).to(tl.int64)
            h0 += (left & _LIMB).to(tl.int64)
            h1 += ((left >> 26) & _LIMB).to(tl.int64)
            h2 += (((left >> 52) | (right << 12)) & _LIMB).to(tl.int64) + tl.where(both, 0, mark << 12)
            h3 += ((right >> 14) & _LIMB).to(tl.int64)
            h4 += (right >> 40).to(tl.int64) + tl.where(both, mark << 24, 0)
        else:
            h0 += tl.load(values + place, mask=there, other=0)
            h1 += tl.load(values + num + place, mask=there, other=0)
            h2 += tl.load(values + 2 * num + place, mask=there, other=0)
            h3 += tl.load(values + 3 * num + place, mask=there, other=0)
            h4 += tl.load(values + 4 * num + place, mask=there, other=0)
    h0, h1, h2, h3, h4 = _carried(h0, h1, h2, h3, h4)
    tl.store(out + group, h0, mask=group < groups)
    tl.store(out + groups + group, h1, mask=group < groups)
    tl.store(out + 2 * groups + group, h2, mask=group < groups)
    tl.store(out + 3 * groups + group, h3, mask=group < groups)
    tl.store(out + 4 * groups + group, h4, mask=group < groups)


@triton.jit  # type: ignore[untyped-decorator]
def tag(out: tl.tensor, value: tl.tensor, power: tl.tensor, pad: tl.tensor, lanes: tl.constexpr) -> None:
    """Poly1305's tag: value times power modulo 2^130 - 5, plus the pad modulo 2^128, as two words."""
    lane = tl.arange(0, lanes)
    zero = (lane ^ lane).to(tl.int64)
    h0, h1, h2 = tl.load(value + zero), tl.load(value + 1 + zero), tl.load(value + 2 + zero)
    h3, h4 = tl.load(value + 3 + zero), tl.load(value + 4 + zero)
    h0, h1, h2, h3, h4 = _times(h0, h1, h2, h3, h4, power)
    h0, h1, h2, h3, h4 = _carried(h0, h1, h2, h3, h4)
    h0, h1, h2, h3, h4 = _carried(h0, h1, h2, h3, h4)  # below 2^130 now, each limb below 2^26
    g1 = h1 + ((h0 + 5) >> 26)
    g2 = h2 + (g1 >> 26)
    g3 = h3 + (g2 >> 26)
    g4 = h4 + (g3 >> 26)
    less = (g4 >> 26) == 0  # than 2^130 - 5
    h0 = _unsigned(tl.where(less, h0, (h0 + 5) & _LIMB))
    h1 = _unsigned(tl.where(less, h1, g1 & _LIMB))
    h2 = _unsigned(tl.where(less, h2, g2 & _LIMB))
    h3 = _unsigned(tl.where(less, h3, g3 & _LIMB))
    h4 = _unsigned(tl.where(less, h4, g4 & _LIMB))
    left, right = h0 | (h1 << 26) | (h2 << 52), (h2 >> 12) | (h3 << 14) | (h4 << 40)
    first, second = _unsigned(tl.load(pad + zero)), _unsigned(tl.load(pad + 1 + zero))
    left += first
    right += second + (left < first).to(tl.uint64)
    tl.store(out + lane, left.to(tl.int64, bitcast=True), mask=lane < 1)
    tl.store(out + 1 + lane, right.to(tl.int64, bitcast=True), mask=lane < 1)
