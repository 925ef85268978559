/* Points of Curve25519 by their u-coordinate, eight at a time, on processors with AVX-512 IFMA: X25519 (RFC 7748),
 * and Elligator's map [Bernstein2013] followed by three doublings.
 *
 * A number modulo p = 2^255 - 19 is five limbs of 51 bits, least significant first; lane k of each word belongs to number k.
 * Between operations limbs stay below 2^51 + 2^14, so that the processor's products, which take 52 bits of a word,
 * see all of them. An array holds four 64-bit words for each number, little endian.
 *
 * No branch and no address depends on a number or on the scalar.
 */

#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define IFMA __attribute__((target("avx512f,avx512ifma")))
#define LANES 8
#define LIMBS 5
#define LIMB_BITS 51
#define SPREAD(word) _mm512_set1_epi64((long long)(word))
#define ADD _mm512_add_epi64
#define AND _mm512_and_si512

typedef __m512i lanes_t;
typedef struct {
    lanes_t limb[LIMBS];
} field_t;

static const uint64_t MASK = (1ULL << LIMB_BITS) - 1;
static const uint64_t A = 486662;         /* v^2 = u^3 + A u^2 + u */
static const uint64_t A_PLUS_2_BY_4 = 121666;

IFMA static inline lanes_t times_19(lanes_t word)
{
    return ADD(ADD(_mm512_slli_epi64(word, 4), _mm512_slli_epi64(word, 1)), word);
}

/* All carries at once, of limbs below 2^57. */
IFMA static inline field_t settled(field_t a)
{
    const lanes_t mask = SPREAD(MASK);
    field_t out;
    out.limb[0] = ADD(AND(a.limb[0], mask), times_19(_mm512_srli_epi64(a.limb[4], LIMB_BITS)));
    for (int i = 1; i < LIMBS; i++)
        out.limb[i] = ADD(AND(a.limb[i], mask), _mm512_srli_epi64(a.limb[i - 1], LIMB_BITS));
    return out;
}

/* One carry after the other, of limbs below 2^63. */
IFMA static inline field_t carried(field_t a)
{
    const lanes_t mask = SPREAD(MASK);
    for (int i = 0; i < LIMBS - 1; i++) {
        a.limb[i + 1] = ADD(a.limb[i + 1], _mm512_srli_epi64(a.limb[i], LIMB_BITS));
        a.limb[i] = AND(a.limb[i], mask);
    }
    a.limb[0] = ADD(a.limb[0], times_19(_mm512_srli_epi64(a.limb[4], LIMB_BITS)));
    a.limb[4] = AND(a.limb[4], mask);
    a.limb[1] = ADD(a.limb[1], _mm512_srli_epi64(a.limb[0], LIMB_BITS));
    a.limb[0] = AND(a.limb[0], mask);
    return a;
}

IFMA static inline field_t constant(uint64_t word)
{
    field_t out;
    out.limb[0] = SPREAD(word);
    for (int i = 1; i < LIMBS; i++)
        out.limb[i] = _mm512_setzero_si512();
    return out;
}

IFMA static inline field_t add(field_t a, field_t b)
{
    for (int i = 0; i < LIMBS; i++)
        a.limb[i] = ADD(a.limb[i], b.limb[i]);
    return settled(a);
}

/* a + 4 p - b, so that no limb is negative. */
IFMA static inline field_t subtract(field_t a, field_t b)
{
    for (int i = 0; i < LIMBS; i++)
        a.limb[i] = _mm512_sub_epi64(ADD(a.limb[i], SPREAD(4 * (i ? MASK : MASK - 18))), b.limb[i]);
    return settled(a);
}

/* The low halves of partial products have the weight of their column, and the high halves twice that of the next one. */
IFMA static field_t multiply(field_t a, field_t b)
{
    lanes_t low[2 * LIMBS], high[2 * LIMBS];
    field_t out;
    for (int k = 0; k < 2 * LIMBS; k++)
        low[k] = high[k] = _mm512_setzero_si512();
#pragma GCC unroll 5
    for (int i = 0; i < LIMBS; i++)
#pragma GCC unroll 5
        for (int j = 0; j < LIMBS; j++) {
            low[i + j] = _mm512_madd52lo_epu64(low[i + j], a.limb[i], b.limb[j]);
            high[i + j + 1] = _mm512_madd52hi_epu64(high[i + j + 1], a.limb[i], b.limb[j]);
        }
#pragma GCC unroll 10
    for (int k = 0; k < 2 * LIMBS; k++)
        low[k] = ADD(low[k], ADD(high[k], high[k]));
#pragma GCC unroll 5
    for (int k = 0; k < LIMBS; k++)
        out.limb[k] = ADD(low[k], times_19(low[k + LIMBS]));
    return carried(out);
}

IFMA static field_t times_small(field_t a, uint64_t factor)
{
    const lanes_t b = SPREAD(factor), zero = _mm512_setzero_si512();
    field_t out;
    for (int i = 0; i < LIMBS; i++)
        out.limb[i] = _mm512_madd52lo_epu64(zero, a.limb[i], b);
    for (int i = 0; i < LIMBS; i++) {
        const lanes_t high = _mm512_madd52hi_epu64(zero, a.limb[i], b), twice = ADD(high, high);
        out.limb[(i + 1) % LIMBS] = ADD(out.limb[(i + 1) % LIMBS], i + 1 < LIMBS ? twice : times_19(twice));
    }
    return carried(out);
}

IFMA static field_t squared(field_t a, int times)
{
    for (int i = 0; i < times; i++)
        a = multiply(a, a);
    return a;
}

/* a ^ (2^250 - 1), and a ^ 11 beside it. */
IFMA static field_t power_250(field_t a, field_t *eleventh)
{
    const field_t a2 = squared(a, 1), a9 = multiply(squared(a2, 2), a);
    *eleventh = multiply(a9, a2);
    const field_t to_5 = multiply(squared(*eleventh, 1), a9);
    const field_t to_10 = multiply(squared(to_5, 5), to_5), to_20 = multiply(squared(to_10, 10), to_10);
    const field_t to_40 = multiply(squared(to_20, 20), to_20), to_50 = multiply(squared(to_40, 10), to_10);
    const field_t to_100 = multiply(squared(to_50, 50), to_50), to_200 = multiply(squared(to_100, 100), to_100);
    return multiply(squared(to_200, 50), to_50);
}

/* a ^ (p - 2), the inverse; 0 for 0. */
IFMA static field_t inverse(field_t a)
{
    field_t eleventh;
    const field_t power = power_250(a, &eleventh);
    return multiply(squared(power, 5), eleventh);
}

/* a ^ ((p - 1) / 2) = a ^ (2^254 - 10): 1 for a square, -1 for none, 0 for 0. */
IFMA static field_t square_or_not(field_t a)
{
    field_t eleventh;
    const field_t a2 = squared(a, 1), a6 = multiply(squared(a2, 1), a2);
    return multiply(squared(power_250(a, &eleventh), 4), a6);
}

/* The number in [0, p). */
IFMA static field_t canonical(field_t a)
{
    const lanes_t mask = SPREAD(MASK);
    a = carried(carried(a));
    /* Below 2^255 + small. What 19 more carries out of the top is 1 where a is p or more. */
    lanes_t carry = SPREAD(19);
    for (int i = 0; i < LIMBS; i++)
        carry = _mm512_srli_epi64(ADD(a.limb[i], carry), LIMB_BITS);
    carry = times_19(carry);
    for (int i = 0; i < LIMBS; i++) {
        const lanes_t word = ADD(a.limb[i], carry);
        a.limb[i] = AND(word, mask);
        carry = _mm512_srli_epi64(word, LIMB_BITS);
    }
    return a;
}

/* Where the mask is all ones, a and b change places. */
IFMA static inline void swap(field_t *a, field_t *b, lanes_t mask)
{
    for (int i = 0; i < LIMBS; i++) {
        const lanes_t difference = AND(_mm512_xor_si512(a->limb[i], b->limb[i]), mask);
        a->limb[i] = _mm512_xor_si512(a->limb[i], difference);
        b->limb[i] = _mm512_xor_si512(b->limb[i], difference);
    }
}

/* Idle lanes repeat the last number. */
IFMA static field_t load(const uint64_t *words, int used)
{
    uint64_t limbs[LIMBS][LANES];
    field_t out;
    for (int k = 0; k < LANES; k++) {
        const uint64_t *w = words + 4 * (k < used ? k : used - 1);
        limbs[0][k] = w[0] & MASK;
        limbs[1][k] = (w[0] >> 51 | w[1] << 13) & MASK;
        limbs[2][k] = (w[1] >> 38 | w[2] << 26) & MASK;
        limbs[3][k] = (w[2] >> 25 | w[3] << 39) & MASK;
        limbs[4][k] = w[3] >> 12 & MASK; /* without bit 255 */
    }
    for (int i = 0; i < LIMBS; i++)
        out.limb[i] = _mm512_loadu_si512(limbs[i]);
    return out;
}

IFMA static void store(uint64_t *words, int used, field_t a)
{
    uint64_t limbs[LIMBS][LANES];
    a = canonical(a);
    for (int i = 0; i < LIMBS; i++)
        _mm512_storeu_si512(limbs[i], a.limb[i]);
    for (int k = 0; k < used; k++) {
        uint64_t *w = words + 4 * k;
        w[0] = limbs[0][k] | limbs[1][k] << 51;
        w[1] = limbs[1][k] >> 13 | limbs[2][k] << 38;
        w[2] = limbs[2][k] >> 26 | limbs[3][k] << 25;
        w[3] = limbs[3][k] >> 39 | limbs[4][k] << 12;
    }
}

/* (x : z) becomes twice itself. */
IFMA static inline void double_point(field_t *x, field_t *z)
{
    const field_t sum = squared(add(*x, *z), 1), difference = squared(subtract(*x, *z), 1);
    const field_t between = subtract(sum, difference);
    *x = multiply(sum, difference);
    *z = multiply(between, add(difference, times_small(between, A_PLUS_2_BY_4)));
}

/* out[i] = X25519 of a clamped scalar, four words, and of u[i]; 0 where u[i] has a small order. The scalar is the first one
 * for all i if step is 0, and the i-th if it is 1. */
EXPORT IFMA void kernel_x25519(uint64_t *out, const uint64_t *u, const uint64_t *scalars, int64_t step, int64_t count)
{
    for (int64_t first = 0; first < count; first += LANES) {
        const int used = count - first < LANES ? (int)(count - first) : LANES;
        const field_t base = load(u + 4 * first, used);
        field_t x_2 = constant(1), z_2 = constant(0), x_3 = base, z_3 = constant(1);
        lanes_t before = _mm512_setzero_si512(), scalar[4];
        for (int word = 0; word < 4; word++) {
            uint64_t of_lanes[LANES];
            for (int k = 0; k < LANES; k++)
                of_lanes[k] = scalars[4 * step * (first + (k < used ? k : used - 1)) + word];
            scalar[word] = _mm512_loadu_si512(of_lanes);
        }
        for (int bit = 254; bit >= 0; bit--) {
            const lanes_t now = AND(_mm512_srli_epi64(scalar[bit / 64], (unsigned)bit % 64), SPREAD(1));
            const lanes_t mask = _mm512_sub_epi64(_mm512_setzero_si512(), _mm512_xor_si512(now, before));
            swap(&x_2, &x_3, mask);
            swap(&z_2, &z_3, mask);
            before = now;
            const field_t across = multiply(subtract(x_3, z_3), add(x_2, z_2));
            const field_t along = multiply(add(x_3, z_3), subtract(x_2, z_2));
            double_point(&x_2, &z_2);
            x_3 = squared(add(across, along), 1);
            z_3 = multiply(base, squared(subtract(across, along), 1));
        }
        const lanes_t mask = _mm512_sub_epi64(_mm512_setzero_si512(), before);
        swap(&x_2, &x_3, mask);
        swap(&z_2, &z_3, mask);
        store(out + 4 * first, used, multiply(x_2, inverse(z_2)));
    }
}

/* out[i] = u of eight times the point of Elligator's map at r[i], whose bit 255 does not count.
 *
 * With w = 1 + 2 r^2 the map is u = -A / w where that is on the curve, and else -A - u = A (1 - w) / w. The curve's
 * u^3 + A u^2 + u at -A / w is -A w (A^2 (1 - w) + w^2) over the square w^4. As -1/2 is no square, w is never 0. */
EXPORT IFMA void kernel_elligator(uint64_t *out, const uint64_t *r, int64_t count)
{
    const field_t zero = constant(0), one = constant(1);
    for (int64_t first = 0; first < count; first += LANES) {
        const int used = count - first < LANES ? (int)(count - first) : LANES;
        const field_t square = squared(load(r + 4 * first, used), 1);
        const field_t w = add(one, add(square, square)), rest = times_small(subtract(one, w), A);
        const field_t inner = add(times_small(rest, A), squared(w, 1));
        const field_t minus_a = subtract(zero, constant(A));
        const field_t kind = canonical(square_or_not(multiply(multiply(minus_a, w), inner)));
        /* -1 has bit 8 of its lowest limb set; 0 and 1 have not. */
        const lanes_t bit = AND(_mm512_srli_epi64(kind.limb[0], 8), SPREAD(1));
        const lanes_t mask = _mm512_sub_epi64(_mm512_setzero_si512(), bit);
        field_t x = minus_a, z = w, other = rest;
        swap(&x, &other, mask);
        for (int i = 0; i < 3; i++)
            double_point(&x, &z);
        store(out + 4 * first, used, multiply(x, inverse(z)));
    }
}

#endif
