/* Products modulo one odd number or its square, eight at a time, on processors with AVX-512 IFMA.
 *
 * Numbers are rows of limbs of 52 bits, least significant first, in 64-bit words. Inside, eight numbers stand beside
 * each other: word j of lane k is limb j of number k, so that one instruction multiplies eight limbs, one of each, and
 * lanes never meet. Products are Montgomery's (1985): with R = 2^(52 limbs), mul(a, b) = a b / R modulo n. A number x is
 * kept as x R mod n, and then a product of such numbers is one again; results stay below 2 n and are reduced only when
 * they leave, for which R must exceed 4 n.
 *
 * Modulo a square n^2 a number is a pair: x + y n has the limbs of x and then those of y, both modulo n. A product of pairs
 * is x x' + (x y' + x' y) n, three products of half the width; what Montgomery's reduction of x x' takes away, a
 * multiple m of n, is taken away from the second part as well. There R must exceed 16 n; parts stay below 2 n. A square takes
 * x x, in which products of two limbs are made once, and x times 2 y. A fixed entry x (1 + s n) takes two products: see
 * kernel_comb_products.
 *
 * Sums of partial products are carried late: a word takes up to six 52-bit terms for each limb, so 64 bits suffice for
 * more limbs than MAX_LIMBS.
 *
 * Time. No branch and no address depends on a number or on an exponent's digits, except where it is said below: comb_products reads
 * the entries that secret digits name, and group_products the rows that a secret order names, so that they leave traces in
 * the caches, as lists of Python integers do. docs/cryptography.md says why.
 *
 * There is no path for other processors here: plain C is hardly faster than GMP, which the caller falls back to. The
 * functions are compiled for IFMA one by one, so that the object loads anywhere and kernel_supported() can say no.
 *
 * Arrays belong to the caller and are not checked here; crypto/kernel.py does that, and calls these functions through
 * ctypes, which releases the interpreter's lock. For Python the object is a module without contents, so that it is built,
 * installed and found as any other.
 */

#define Py_LIMITED_API 0x030A0000
#include <Python.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define IFMA __attribute__((target("avx512f,avx512ifma")))
#define LANES 8
#define LIMB_BITS 52
#define LIMB_MASK ((1ULL << LIMB_BITS) - 1)
#define MAX_LIMBS 320
#define WINDOW 4 /* bits of an exponent's digit */
#define ENTRIES (1 << WINDOW)

typedef __m512i lanes_t;

/* The modulus, or the root n of a square one: its limbs (four or more), and -1 / n modulo 2^52. A row in
 * memory has stride words; those beyond the limbs are zero. Parts have a multiple of 8 words: a pair has two, else there is one. */
typedef struct {
    int64_t limbs;
    int64_t stride;
    int64_t part;
    uint64_t negative_inverse;
    const uint64_t *modulus;
    const uint64_t *one;           /* R modulo the modulus, as a row */
    const uint64_t *one_minus_r;   /* 1 - R modulo n, for pairs */
} ring_t;

EXPORT int kernel_supported(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512ifma");
}

EXPORT int kernel_max_limbs(void)
{
    return MAX_LIMBS;
}

#define LOW(sum, a, b) _mm512_madd52lo_epu64(sum, a, b)
#define HIGH(sum, a, b) _mm512_madd52hi_epu64(sum, a, b)
#define SPREAD(word) _mm512_set1_epi64((long long)(word))
#define CARRY(word) _mm512_srli_epi64(word, LIMB_BITS)

#define INLINE static inline __attribute__((always_inline))

/* One step of Montgomery's reduction: to the words from at on are added a b and c d, where a and c are not NULL, of b and d the
 * limbs given, and the multiples of n that clear the two lowest words, which are carried. What n is multiplied with is
 * left in quotients, unless that is NULL. Callers give constants for NULL or not, so that no copy has a test inside.
 *
 * Two limbs are taken at once, so that each word is loaded and stored once for eight multiplications. */
IFMA INLINE void clear_two(
    lanes_t *at, const lanes_t *a, const lanes_t *b, const lanes_t *c, const lanes_t *d, lanes_t *quotients, const ring_t *ring, int64_t limbs)
{
    const uint64_t *n = ring->modulus;
    const lanes_t inverse = SPREAD(ring->negative_inverse), zero = _mm512_setzero_si512();
    const lanes_t b_0 = a ? b[0] : zero, b_1 = a ? b[1] : zero, d_0 = c ? d[0] : zero, d_1 = c ? d[1] : zero;
    lanes_t n_0 = SPREAD(n[0]), n_1 = SPREAD(n[1]), a_0 = a ? a[0] : zero, a_1 = a ? a[1] : zero;
    lanes_t c_0 = c ? c[0] : zero, c_1 = c ? c[1] : zero;

    lanes_t first = at[0];
    if (a)
        first = LOW(first, a_0, b_0);
    if (c)
        first = LOW(first, c_0, d_0);
    const lanes_t quotient_0 = LOW(zero, first, inverse);
    first = LOW(first, quotient_0, n_0);
    lanes_t second = _mm512_add_epi64(at[1], CARRY(first));
    second = HIGH(LOW(second, quotient_0, n_1), quotient_0, n_0);
    if (a)
        second = LOW(HIGH(LOW(second, a_1, b_0), a_0, b_0), a_0, b_1);
    if (c)
        second = LOW(HIGH(LOW(second, c_1, d_0), c_0, d_0), c_0, d_1);
    const lanes_t quotient_1 = LOW(zero, second, inverse);
    second = LOW(second, quotient_1, n_0);
    at[2] = _mm512_add_epi64(at[2], CARRY(second));
    if (quotients) {
        quotients[0] = quotient_0;
        quotients[1] = quotient_1;
    }

    for (int64_t j = 2; j < limbs; j++) {
        const lanes_t n_2 = SPREAD(n[j]);
        lanes_t ours = at[j], theirs = HIGH(LOW(zero, quotient_1, n_1), quotient_1, n_0);
        if (a) {
            const lanes_t a_2 = a[j];
            ours = HIGH(LOW(ours, a_2, b_0), a_1, b_0);
            ours = HIGH(LOW(ours, a_1, b_1), a_0, b_1);
            a_0 = a_1, a_1 = a_2;
        }
        if (!a)
            ours = HIGH(LOW(ours, quotient_0, n_2), quotient_0, n_1);
        else
            theirs = HIGH(LOW(theirs, quotient_0, n_2), quotient_0, n_1);
        if (c) {
            const lanes_t c_2 = c[j];
            ours = HIGH(LOW(ours, c_2, d_0), c_1, d_0);
            theirs = HIGH(LOW(theirs, c_1, d_1), c_0, d_1);
            c_0 = c_1, c_1 = c_2;
        }
        at[j] = _mm512_add_epi64(ours, theirs);
        n_0 = n_1, n_1 = n_2;
    }
    lanes_t last = HIGH(at[limbs], quotient_0, n_1), beyond = HIGH(at[limbs + 1], quotient_1, n_1);
    last = HIGH(LOW(last, quotient_1, n_1), quotient_1, n_0);
    if (a) {
        last = HIGH(LOW(HIGH(last, a_1, b_0), a_1, b_1), a_0, b_1);
        beyond = HIGH(beyond, a_1, b_1);
    }
    if (c) {
        last = HIGH(LOW(HIGH(last, c_1, d_0), c_1, d_1), c_0, d_1);
        beyond = HIGH(beyond, c_1, d_1);
    }
    at[limbs] = last;
    at[limbs + 1] = beyond;
}

/* The same with one limb, for the first of an odd number. */
IFMA INLINE void clear_one(
    lanes_t *at, const lanes_t *a, const lanes_t *b, const lanes_t *c, const lanes_t *d, lanes_t *quotients, const ring_t *ring, int64_t limbs)
{
    const uint64_t *n = ring->modulus;
    const lanes_t zero = _mm512_setzero_si512(), b_0 = a ? b[0] : zero, d_0 = c ? d[0] : zero;
    lanes_t carried = zero;

    lanes_t first = at[0];
    if (a)
        first = LOW(first, a[0], b_0);
    if (c)
        first = LOW(first, c[0], d_0);
    const lanes_t quotient = LOW(zero, first, SPREAD(ring->negative_inverse));
    carried = CARRY(LOW(first, quotient, SPREAD(n[0])));
    if (quotients)
        quotients[0] = quotient;
    for (int64_t j = 1; j < limbs; j++) {
        lanes_t word = _mm512_add_epi64(at[j], carried);
        word = HIGH(LOW(word, quotient, SPREAD(n[j])), quotient, SPREAD(n[j - 1]));
        if (a)
            word = HIGH(LOW(word, a[j], b_0), a[j - 1], b_0);
        if (c)
            word = HIGH(LOW(word, c[j], d_0), c[j - 1], d_0);
        at[j] = word;
        carried = zero;
    }
    lanes_t last = HIGH(at[limbs], quotient, SPREAD(n[limbs - 1]));
    if (a)
        last = HIGH(last, a[limbs - 1], b_0);
    if (c)
        last = HIGH(last, c[limbs - 1], d_0);
    at[limbs] = last;
}

/* The upper half of twice so many words, carried. */
IFMA INLINE void carry_upper(lanes_t *out, const lanes_t *sum, int64_t limbs)
{
    const lanes_t mask = SPREAD(LIMB_MASK);
    lanes_t carry = _mm512_setzero_si512();
    for (int64_t j = 0; j < limbs; j++) {
        const lanes_t word = _mm512_add_epi64(sum[limbs + j], carry);
        out[j] = _mm512_and_si512(word, mask);
        carry = CARRY(word);
    }
}

/* out = (start + a b + c d) / R modulo n, below 2 n if R is large enough; c is NULL where there is one product only, and
 * start where there is no sum to begin with. out may be any of the others. Quotients as in clear_two. */
IFMA INLINE void reduced(
    lanes_t *out, const lanes_t *a, const lanes_t *b, const lanes_t *c, const lanes_t *d, const lanes_t *start,
    lanes_t *quotients, const ring_t *ring, int64_t limbs)
{
    const int64_t odd = limbs & 1;
    lanes_t sum[2 * MAX_LIMBS + 1];

    for (int64_t j = 0; j < limbs; j++) {
        sum[j] = start ? start[j] : _mm512_setzero_si512();
        sum[limbs + j] = _mm512_setzero_si512();
    }
    if (odd)
        clear_one(sum, a, b, c, d, quotients, ring, limbs);
    for (int64_t i = odd; i < limbs; i += 2)
        clear_two(sum + i, a, b + i, c, d ? d + i : d, quotients ? quotients + i : quotients, ring, limbs);
    carry_upper(out, sum, limbs);
}

/* out = a^2 / R modulo n, as reduced gives it for a a: products of two different limbs are made once and doubled. */
IFMA INLINE void reduced_square(lanes_t *out, const lanes_t *a, lanes_t *quotients, const ring_t *ring, int64_t limbs)
{
    const int64_t odd = limbs & 1;
    const lanes_t zero = _mm512_setzero_si512();
    lanes_t sum[2 * MAX_LIMBS + 1];

    for (int64_t j = 0; j < 2 * limbs; j++)
        sum[j] = zero;
    for (int64_t i = 0; i + 1 < limbs; i += 2) {
        const lanes_t b_0 = a[i], b_1 = a[i + 1];
        lanes_t a_0 = zero, a_1 = zero, *at = sum + i;
        at[i + 1] = LOW(at[i + 1], b_0, b_1);
        at[i + 2] = HIGH(at[i + 2], b_0, b_1);
        for (int64_t j = i + 2; j < limbs; j++) {
            const lanes_t a_2 = a[j];
            at[j] = _mm512_add_epi64(HIGH(LOW(at[j], a_2, b_0), a_1, b_0), HIGH(LOW(zero, a_1, b_1), a_0, b_1));
            a_0 = a_1, a_1 = a_2;
        }
        at[limbs] = HIGH(LOW(HIGH(at[limbs], a_1, b_0), a_1, b_1), a_0, b_1);
        at[limbs + 1] = HIGH(at[limbs + 1], a_1, b_1);
    }
    for (int64_t j = 0; j < limbs; j++) {
        sum[2 * j] = LOW(_mm512_add_epi64(sum[2 * j], sum[2 * j]), a[j], a[j]);
        sum[2 * j + 1] = HIGH(_mm512_add_epi64(sum[2 * j + 1], sum[2 * j + 1]), a[j], a[j]);
    }
    if (odd)
        clear_one(sum, NULL, NULL, NULL, NULL, quotients, ring, limbs);
    for (int64_t i = odd; i < limbs; i += 2)
        clear_two(sum + i, NULL, NULL, NULL, NULL, quotients ? quotients + i : quotients, ring, limbs);
    carry_upper(out, sum, limbs);
}

/* -m + 1 modulo R, less R, of the quotients m: what the second part of a product of pairs begins with. */
IFMA INLINE void complement(lanes_t *quotients, const ring_t *ring, int64_t limbs)
{
    const lanes_t mask = SPREAD(LIMB_MASK);
    for (int64_t j = 0; j < limbs; j++)
        quotients[j] = _mm512_add_epi64(_mm512_xor_si512(quotients[j], mask), SPREAD(ring->one_minus_r[j]));
}

/* The product of pairs. With m of the quotients, x x' = (x x' / R) R - m n; and -m is the complement of its limbs plus
 * 1 - R. The second part is below (8 n^2 + n + R + R n) / R, hence below 2 n. A square has twice x y there. */
IFMA INLINE void multiply_pairs(lanes_t *out, const lanes_t *a, const lanes_t *b, const ring_t *ring, int64_t limbs)
{
    const int64_t part = ring->part;
    const lanes_t mask = SPREAD(LIMB_MASK);
    lanes_t first[MAX_LIMBS / 2], start[MAX_LIMBS / 2], twice[MAX_LIMBS / 2], carry = _mm512_setzero_si512();

    if (a == b)
        reduced_square(first, a, start, ring, limbs);
    else
        reduced(first, a, b, NULL, NULL, NULL, start, ring, limbs);
    complement(start, ring, limbs);
    if (a == b) {
        for (int64_t j = 0; j < limbs; j++) {
            const lanes_t word = _mm512_add_epi64(_mm512_add_epi64(a[part + j], a[part + j]), carry);
            twice[j] = _mm512_and_si512(word, mask);
            carry = CARRY(word);
        }
        reduced(out + part, a, twice, NULL, NULL, start, NULL, ring, limbs);
    } else
        reduced(out + part, a, b + part, a + part, b, start, NULL, ring, limbs);
    memcpy(out, first, sizeof(lanes_t) * (size_t)limbs);
}

/* Loops of a length that is known are quicker: those of primes of keys of 2048 bits, and of their moduli, have copies. */
#define PAIRS_OF(name, limbs)                                                                     \
    IFMA static __attribute__((noinline)) void name(                                              \
        lanes_t *out, const lanes_t *a, const lanes_t *b, const ring_t *ring)                     \
    {                                                                                             \
        if (a == b)                                                                               \
            multiply_pairs(out, a, a, ring, limbs);                                               \
        else                                                                                      \
            multiply_pairs(out, a, b, ring, limbs);                                               \
    }
PAIRS_OF(pairs_of_13, 13)
PAIRS_OF(pairs_of_14, 14)
PAIRS_OF(pairs_of_40, 40)
PAIRS_OF(pairs_of_any, ring->limbs)

/* out = a b / R modulo the modulus, below twice the modulus (or n, both parts) if a and b are. out may be a or b. */
IFMA static void multiply(lanes_t *out, const lanes_t *a, const lanes_t *b, const ring_t *ring)
{
    const int64_t limbs = ring->limbs;
    if (ring->part == ring->stride) {
        if (a == b)
            reduced_square(out, a, NULL, ring, limbs);
        else
            reduced(out, a, b, NULL, NULL, NULL, NULL, ring, limbs);
    } else if (limbs == 13)
        pairs_of_13(out, a, b, ring);
    else if (limbs == 14)
        pairs_of_14(out, a, b, ring);
    else if (limbs == 40)
        pairs_of_40(out, a, b, ring);
    else
        pairs_of_any(out, a, b, ring);
}

/* Eight rows of eight words become eight columns. */
IFMA static inline void transpose(lanes_t out[LANES], const lanes_t in[LANES])
{
    lanes_t pairs[LANES], fours[LANES];
    for (int k = 0; k < LANES; k += 2) {
        pairs[k] = _mm512_unpacklo_epi64(in[k], in[k + 1]);
        pairs[k + 1] = _mm512_unpackhi_epi64(in[k], in[k + 1]);
    }
    for (int k = 0; k < LANES; k += 4)
        for (int j = 0; j < 2; j++) {
            fours[k + j] = _mm512_shuffle_i64x2(pairs[k + j], pairs[k + j + 2], 0x88);
            fours[k + j + 2] = _mm512_shuffle_i64x2(pairs[k + j], pairs[k + j + 2], 0xdd);
        }
    for (int j = 0; j < 4; j++) {
        out[j] = _mm512_shuffle_i64x2(fours[j], fours[j + 4], 0x88);
        out[j + 4] = _mm512_shuffle_i64x2(fours[j], fours[j + 4], 0xdd);
    }
}

IFMA static void load(lanes_t *out, const uint64_t *const rows[LANES], const ring_t *ring)
{
    for (int64_t at = 0; at < ring->stride; at += LANES) {
        lanes_t block[LANES];
        for (int k = 0; k < LANES; k++)
            block[k] = _mm512_loadu_si512(rows[k] + at);
        transpose(out + at, block);
    }
}

IFMA static void store(uint64_t *const rows[LANES], int used, const lanes_t *in, const ring_t *ring)
{
    for (int64_t at = 0; at < ring->stride; at += LANES) {
        lanes_t block[LANES], words[LANES];
        for (int j = 0; j < LANES; j++)
            words[j] = (at + j) % ring->part < ring->limbs ? in[at + j] : _mm512_setzero_si512();
        transpose(block, words);
        for (int k = 0; k < used; k++)
            _mm512_storeu_si512(rows[k] + at, block[k]);
    }
}

/* Eight rows of an array lie in as many words as eight numbers beside each other; the last batch may have fewer rows. */
static lanes_t *place(uint64_t *array, int64_t first, int used, lanes_t *spare, const ring_t *ring)
{
    return used == LANES ? (lanes_t *)(void *)(array + first * ring->stride) : spare;
}

static inline int at_most_eight(int64_t left)
{
    return left < LANES ? (int)left : LANES;
}

/* The rows of a batch that lanes take; idle lanes repeat the last one. */
static void batch(const uint64_t *rows[LANES], const uint64_t *array, int64_t first, int used, int64_t stride)
{
    for (int k = 0; k < LANES; k++)
        rows[k] = array + (first + (k < used ? k : used - 1)) * stride;
}

static void results(uint64_t *rows[LANES], uint64_t *array, int64_t first, int64_t stride)
{
    for (int k = 0; k < LANES; k++)
        rows[k] = array + (first + k) * stride;
}

/* out[i] = a[i] b[i] / R for count rows; b_step is 0 where one row of b serves all, else 1. */
EXPORT IFMA void kernel_products(
    uint64_t *out, const uint64_t *a, const uint64_t *b, int64_t b_step, int64_t count, const ring_t *ring)
{
    lanes_t left[MAX_LIMBS], right[MAX_LIMBS];
    const uint64_t *from[LANES];
    uint64_t *to[LANES];
    for (int64_t first = 0; first < count; first += LANES) {
        const int used = at_most_eight(count - first);
        batch(from, a, first, used, ring->stride);
        load(left, from, ring);
        batch(from, b, first * b_step, used, ring->stride * b_step);
        load(right, from, ring);
        multiply(left, left, right, ring);
        results(to, out, first, ring->stride);
        store(to, used, left, ring);
    }
}

/* All ones where two words below 2^63 are equal: of their difference in bits, less 1, 0 alone is made negative. */
IFMA INLINE lanes_t equal(lanes_t a, lanes_t b)
{
    return _mm512_srai_epi64(_mm512_sub_epi64(_mm512_xor_si512(a, b), SPREAD(1)), 63);
}

/* Of so many rows, for each lane the one that its digit names. All are read, so that no address tells which. */
IFMA static void selected_rows(
    lanes_t *out, const uint64_t *rows, int64_t height, const uint64_t digits[LANES], const ring_t *ring)
{
    const lanes_t wanted = _mm512_loadu_si512(digits);
    for (int64_t at = 0; at < ring->stride; at += LANES) {
        lanes_t sum[LANES];
        for (int j = 0; j < LANES; j++)
            sum[j] = _mm512_setzero_si512();
        for (int64_t entry = 0; entry < height; entry++) {
            const uint64_t *words = rows + entry * ring->stride + at;
            const lanes_t mask = equal(SPREAD(entry), wanted);
#pragma GCC unroll 8
            for (int j = 0; j < LANES; j++)
                sum[j] = _mm512_or_si512(sum[j], _mm512_and_si512(SPREAD(words[j]), mask));
        }
        for (int j = 0; j < LANES; j++)
            out[at + j] = sum[j];
    }
}

/* out[i] = product over steps s and tables t of entries[t][digits[i][s][t]] ^ (2^(squarings (steps - 1 - s))).
 *
 * entries: (tables, height) rows in Montgomery's form; digits: (count, steps, tables). A table is a base and a step one of the
 * windows. All powers walk through the tables side by side, so that each table stays in the cache, and stand in out eight
 * beside each other until the end. */
EXPORT IFMA void kernel_table_products(
    uint64_t *out, const uint64_t *entries, int64_t tables, int64_t height, const uint16_t *digits, int64_t steps,
    int64_t squarings, int64_t count, const ring_t *ring)
{
    lanes_t product[MAX_LIMBS], entry[MAX_LIMBS], last[MAX_LIMBS];
    uint64_t wanted[LANES], *to[LANES];
    for (int64_t s = 0; s < steps; s++)
        for (int64_t t = 0; t < tables; t++)
            for (int64_t first = 0; first < count; first += LANES) {
                const int used = at_most_eight(count - first);
                lanes_t *kept = place(out, first, used, last, ring);
                for (int k = 0; k < LANES; k++) {
                    const int64_t power = first + (k < used ? k : used - 1);
                    wanted[k] = digits[(power * steps + s) * tables + t];
                }
                selected_rows(entry, entries + t * height * ring->stride, height, wanted, ring);
                for (int64_t j = 0; s + t && j < ring->stride; j++)
                    product[j] = _mm512_loadu_si512(kept + j);
                if (t == 0)
                    for (int64_t again = 0; s && again < squarings; again++)
                        multiply(product, product, product, ring);
                if (s + t)
                    multiply(product, product, entry, ring);
                for (int64_t j = 0; j < ring->stride; j++)
                    _mm512_storeu_si512(kept + j, s + t ? product[j] : entry[j]);
            }
    for (int64_t first = 0; first < count; first += LANES) {
        const int used = at_most_eight(count - first);
        const lanes_t *kept = place(out, first, used, last, ring);
        for (int64_t j = 0; j < ring->stride; j++)
            product[j] = _mm512_loadu_si512(kept + j);
        results(to, out, first, ring->stride);
        store(to, used, product, ring);
    }
}

/* The product of a pair and a number below n, a pair whose second part is zero. */
IFMA INLINE void multiply_single(lanes_t *out, const lanes_t *a, const lanes_t *b, const ring_t *ring, int64_t limbs)
{
    lanes_t first[MAX_LIMBS / 2], start[MAX_LIMBS / 2];

    reduced(first, a, b, NULL, NULL, NULL, start, ring, limbs);
    complement(start, ring, limbs);
    reduced(out + ring->part, a + ring->part, b, NULL, NULL, start, NULL, ring, limbs);
    memcpy(out, first, sizeof(lanes_t) * (size_t)limbs);
}

#define SINGLE_OF(name, limbs)                                                                    \
    IFMA static __attribute__((noinline)) void name(                                              \
        lanes_t *out, const lanes_t *a, const lanes_t *b, const ring_t *ring)                     \
    {                                                                                             \
        multiply_single(out, a, b, ring, limbs);                                                  \
    }
SINGLE_OF(single_of_13, 13)
SINGLE_OF(single_of_14, 14)
SINGLE_OF(single_of_40, 40)
SINGLE_OF(single_of_any, ring->limbs)

/* A sum of limbs that are not carried is carried, after it has been doubled; the highest word takes what goes beyond. Of 2^10
 * tables a word has at most 2^10 + 1 limbs of 52 bits. */
static void carry_row(uint64_t *sum, const uint64_t *added, int doubled, int64_t limbs)
{
    uint64_t carry = 0;
    for (int64_t j = 0; j < limbs; j++) {
        const uint64_t word = (sum[j] << doubled) + (added ? added[j] : 0) + carry;
        sum[j] = j < limbs - 1 ? word & LIMB_MASK : word;
        carry = word >> LIMB_BITS;
    }
}

/* A carried sum less a multiple of n: below n (1 + 2^-19), as the quotient is known to 2^-20 where it is below 2^20. Slopes are below
 * 2 n, so that a sum of 2^10 tables is below 2^13 n; and the highest word, of which n has at most 48 bits, holds that. */
static void subtract_multiple(uint64_t *sum, const uint64_t *n, int64_t limbs)
{
    const double limb = (double)(1ULL << LIMB_BITS);
    double above = 0, divisor = 0;
    int64_t highest = limbs - 1;
    while (!n[highest])
        highest--;
    for (int64_t j = limbs - 1; j >= 0 && j >= highest - 2; j--) {
        above = above * limb + (double)sum[j];
        divisor = divisor * limb + (double)n[j];
    }
    const double ratio = above / divisor - 1.0 / (1 << 20);
    const uint64_t quotient = (uint64_t)(ratio > 0 ? ratio : 0);
    unsigned __int128 taken = 0;
    uint64_t borrow = 0;
    for (int64_t j = 0; j < limbs; j++) {
        taken += (unsigned __int128)quotient * n[j];
        const uint64_t less = (j < limbs - 1 ? (uint64_t)taken & LIMB_MASK : (uint64_t)taken) + borrow;
        const uint64_t word = sum[j] - less;
        borrow = word >> 63;
        sum[j] = j < limbs - 1 ? word & LIMB_MASK : word;
        taken >>= LIMB_BITS;
    }
}

/* As kernel_table_products with one squaring, for the comb of powers.py, where a table is a part and a step one of its columns;
 * modulo a square, of entries r (1 + s n): a row has r and then s, as words
 * that are added up by themselves, in sums (count rows of a part, zero at the beginning), so that a product of full width
 * takes two of half the width. s stands for s R modulo n, as the second part of a pair does.
 *
 * The addresses that are read depend on the digits. What the next eight powers need is asked for early, so that the table may be
 * larger than the caches. */
EXPORT IFMA void kernel_comb_products(
    uint64_t *out, uint64_t *sums, const uint64_t *entries, int64_t tables, int64_t height, const uint16_t *digits,
    int64_t steps, int64_t count, const ring_t *ring)
{
    lanes_t product[MAX_LIMBS], entry[MAX_LIMBS / 2], last[MAX_LIMBS], slope[MAX_LIMBS];
    const int64_t part = ring->part, limbs = ring->limbs;
    const ring_t halves = {limbs, part, part, ring->negative_inverse, ring->modulus, ring->one, ring->one_minus_r};
    void (*const multiply_by)(lanes_t *, const lanes_t *, const lanes_t *, const ring_t *) =
        limbs == 13 ? single_of_13 : limbs == 14 ? single_of_14 : limbs == 40 ? single_of_40 : single_of_any;
    const uint64_t *from[LANES];
    uint64_t *to[LANES];
    for (int64_t s = 0; s < steps; s++)
        for (int64_t t = 0; t < tables; t++)
            for (int64_t first = 0; first < count; first += LANES) {
                const int used = at_most_eight(count - first);
                lanes_t *kept = place(out, first, used, last, ring);
                for (int64_t power = first + LANES; power < first + 2 * LANES && power < count; power++) {
                    const uint64_t *row =
                        entries + (t * height + digits[(power * steps + s) * tables + t]) * ring->stride;
                    for (int64_t j = 0; j < ring->stride; j += LANES)
                        _mm_prefetch((const char *)(row + j), _MM_HINT_T0);
                }
                for (int k = 0; k < LANES; k++) {
                    const int64_t power = first + (k < used ? k : used - 1);
                    from[k] = entries + (t * height + digits[(power * steps + s) * tables + t]) * ring->stride;
                }
                load(entry, from, &halves);
                for (int k = 0; k < used; k++) {
                    uint64_t *sum = sums + (first + k) * part;
                    if (s && t == 0) {
                        carry_row(sum, NULL, 1, limbs);
                        subtract_multiple(sum, ring->modulus, limbs);
                    }
                    for (int64_t j = 0; j < part; j += LANES)
                        _mm512_storeu_si512(
                            sum + j, _mm512_add_epi64(_mm512_loadu_si512(sum + j), _mm512_loadu_si512(from[k] + part + j)));
                }
                for (int64_t j = 0; j < ring->stride; j++)
                    product[j] = s + t ? _mm512_loadu_si512(kept + j) : j < part ? entry[j] : _mm512_setzero_si512();
                if (s && t == 0)
                    multiply(product, product, product, ring);
                if (s + t)
                    multiply_by(product, product, entry, ring);
                for (int64_t j = 0; j < ring->stride; j++)
                    _mm512_storeu_si512(kept + j, product[j]);
            }
    for (int64_t first = 0; first < count; first += LANES) {
        const int used = at_most_eight(count - first);
        const lanes_t *kept = place(out, first, used, last, ring);
        for (int64_t j = 0; j < ring->stride; j++)
            product[j] = _mm512_loadu_si512(kept + j);
        for (int k = 0; k < used; k++) {
            carry_row(sums + (first + k) * part, ring->one + part, 0, limbs);
            subtract_multiple(sums + (first + k) * part, ring->modulus, limbs);
        }
        batch(from, sums, first, used, part);
        load(slope + part, from, &halves);
        for (int k = 0; k < LANES; k++)
            from[k] = ring->one;
        load(slope, from, &halves);
        multiply(product, product, slope, ring);
        results(to, out, first, ring->stride);
        store(to, used, product, ring);
    }
}

/* out[g] = product of rows[order[i]] over starts[g] <= i < ends[g]; one for an empty group.
 *
 * Eight groups are multiplied at once, as long as the longest of them; lanes whose group has ended keep what they have. */
EXPORT IFMA void kernel_group_products(
    uint64_t *out, const uint64_t *rows, const int64_t *order, const int64_t *starts, const int64_t *ends,
    int64_t groups, const ring_t *ring)
{
    lanes_t product[MAX_LIMBS], factor[MAX_LIMBS], next[MAX_LIMBS];
    const uint64_t *from[LANES];
    uint64_t *to[LANES];
    for (int64_t first = 0; first < groups; first += LANES) {
        const int used = at_most_eight(groups - first);
        int64_t length[LANES] = {0}, longest = 0;
        for (int k = 0; k < LANES; k++) {
            if (k < used)
                length[k] = ends[first + k] - starts[first + k];
            from[k] = length[k] ? rows + order[starts[first + k]] * ring->stride : ring->one;
            longest = length[k] > longest ? length[k] : longest;
        }
        load(product, from, ring);
        for (int64_t i = 1; i < longest; i++) {
            __mmask8 busy = 0;
            for (int k = 0; k < LANES; k++)
                if (i < length[k]) {
                    busy |= (__mmask8)(1 << k);
                    from[k] = rows + order[starts[first + k] + i] * ring->stride;
                }
            load(factor, from, ring);
            multiply(next, product, factor, ring);
            for (int64_t j = 0; j < ring->stride; j++)
                product[j] = _mm512_mask_mov_epi64(product[j], busy, next[j]);
        }
        results(to, out, first, ring->stride);
        store(to, used, product, ring);
    }
}

/* out[s] = product over d of buckets[s][d] ^ (d + 1), for 0 <= d < height: running products from the last bucket down. */
EXPORT IFMA void kernel_weighted_products(
    uint64_t *out, const uint64_t *buckets, int64_t height, int64_t sets, const ring_t *ring)
{
    lanes_t running[MAX_LIMBS], total[MAX_LIMBS], bucket[MAX_LIMBS];
    const uint64_t *from[LANES];
    uint64_t *to[LANES];
    for (int64_t first = 0; first < sets; first += LANES) {
        const int used = at_most_eight(sets - first);
        for (int k = 0; k < LANES; k++)
            from[k] = buckets + ((first + (k < used ? k : used - 1)) * height + height - 1) * ring->stride;
        load(running, from, ring);
        memcpy(total, running, sizeof(lanes_t) * (size_t)ring->stride);
        for (int64_t d = height - 2; d >= 0; d--) {
            for (int k = 0; k < LANES; k++)
                from[k] -= ring->stride;
            load(bucket, from, ring);
            multiply(running, running, bucket, ring);
            multiply(total, total, running, ring);
        }
        results(to, out, first, ring->stride);
        store(to, used, total, ring);
    }
}

/* The same of a power's table, whose entries stand eight beside each other, for one digit of all lanes. */
IFMA INLINE void selected(lanes_t *out, const lanes_t *table, uint64_t digit, const ring_t *ring)
{
    lanes_t mask[ENTRIES];
#pragma GCC unroll 16
    for (uint64_t entry = 0; entry < ENTRIES; entry++)
        mask[entry] = equal(SPREAD(entry), SPREAD(digit));
    for (int64_t part = 0; part < ring->stride; part += ring->part)
        for (int64_t j = part; j < part + ring->limbs; j++) {
            lanes_t word = _mm512_and_si512(table[j], mask[0]);
#pragma GCC unroll 16
            for (int64_t entry = 1; entry < ENTRIES; entry++)
                word = _mm512_or_si512(word, _mm512_and_si512(table[entry * ring->stride + j], mask[entry]));
            out[j] = word;
        }
}

/* out[i] = rows[i] ^ e, by the digits of e to the base ENTRIES, the most significant one first. One exponent serves all rows. Each
 * digit takes the same steps, a product with one for 0, so that the number of digits alone shows in time and addresses. */
EXPORT IFMA void kernel_powers(
    uint64_t *out, const uint64_t *rows, const uint8_t *digits, int64_t length, int64_t count, const ring_t *ring)
{
    lanes_t table[ENTRIES * MAX_LIMBS], power[MAX_LIMBS], entry[MAX_LIMBS]; /* 0.4 MB of a stack that has 8 */
    const uint64_t *from[LANES];
    uint64_t *to[LANES];
    for (int64_t first = 0; first < count; first += LANES) {
        const int used = at_most_eight(count - first);
        for (int k = 0; k < LANES; k++)
            from[k] = ring->one;
        load(table, from, ring);
        batch(from, rows, first, used, ring->stride);
        load(table + ring->stride, from, ring);
        for (int64_t next = 2; next < ENTRIES; next++)
            multiply(table + next * ring->stride, table + (next - 1) * ring->stride, table + ring->stride, ring);
        selected(power, table, digits[0], ring);
        for (int64_t at = 1; at < length; at++) {
            for (int again = 0; again < WINDOW; again++)
                multiply(power, power, power, ring);
            selected(entry, table, digits[at], ring);
            multiply(power, power, entry, ring);
        }
        results(to, out, first, ring->stride);
        store(to, used, power, ring);
    }
}

/* Words of 64 bits -> limbs of 52, for count parts of width words each. */
EXPORT void kernel_to_limbs(uint64_t *out, const uint64_t *words, int64_t width, int64_t count, const ring_t *ring)
{
    for (int64_t i = 0; i < count; i++, out += ring->part, words += width)
        for (int64_t j = 0; j < ring->part; j++) {
            const int64_t word = j * LIMB_BITS / 64, shift = j * LIMB_BITS % 64;
            uint64_t limb = word < width ? words[word] >> shift : 0;
            if (shift > 64 - LIMB_BITS && word + 1 < width)
                limb |= words[word + 1] << (64 - shift);
            out[j] = limb & LIMB_MASK;
        }
}

/* Limbs of 52 bits -> words of 64, for count parts. */
EXPORT void kernel_to_words(uint64_t *out, const uint64_t *rows, int64_t width, int64_t count, const ring_t *ring)
{
    for (int64_t i = 0; i < count; i++, out += width, rows += ring->part) {
        memset(out, 0, sizeof(uint64_t) * (size_t)width);
        for (int64_t j = 0; j < ring->limbs; j++) {
            const int64_t word = j * LIMB_BITS / 64, shift = j * LIMB_BITS % 64;
            if (word < width)
                out[word] |= rows[j] << shift;
            if (shift > 64 - LIMB_BITS && word + 1 < width)
                out[word + 1] |= rows[j] >> (64 - shift);
        }
    }
}

#else

EXPORT int kernel_supported(void)
{
    return 0;
}

#endif

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_montgomery", .m_size = 0};

PyMODINIT_FUNC PyInit__montgomery(void)
{
    return PyModule_Create(&module);
}
