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
 * multiple m of n, is taken away from the second part as well. There R must exceed 16 n; parts stay below 2 n.
 *
 * Sums of partial products are carried late: a word takes up to six 52-bit terms for each limb, so 64 bits suffice for
 * more limbs than MAX_LIMBS.
 *
 * Time. No branch and no address depends on a number's digits, except where it is said below: table_products reads the
 * entries that secret digits name, and group_products the rows that a secret order names, so that both leave traces in the
 * caches, as lists of Python integers do.
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
#define WINDOW 5

typedef __m512i lanes_t;

/* The modulus, or the root n of a square one: its limbs (an even number, four or more), and -1 / n modulo 2^52. A row in
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

/* out = (start + a b + c d) / R modulo n, below 2 n if R is large enough; c is NULL where there is one product only, and
 * start where there is no sum to begin with. out may be any of the others. What n is multiplied with to clear the lower half
 * is left in quotients, unless that is NULL. Callers give constants for NULL or not, so that no copy has a test inside.
 *
 * Two limbs of b are taken at once, so that each word of the sum is loaded and stored once for eight multiplications.
 * quotient_0 and quotient_1 are the limbs by which multiples of n clear the two lowest words. */
IFMA INLINE void reduced(
    lanes_t *out, const lanes_t *a, const lanes_t *b, const lanes_t *c, const lanes_t *d, const lanes_t *start,
    lanes_t *quotients, const ring_t *ring)
{
    const int64_t limbs = ring->limbs;
    const uint64_t *n = ring->modulus;
    const lanes_t inverse = SPREAD(ring->negative_inverse), zero = _mm512_setzero_si512();
    lanes_t sum[2 * MAX_LIMBS];

    for (int64_t j = 0; j < limbs; j++)
        sum[j] = start ? start[j] : zero;
    for (int64_t i = 0; i < limbs; i += 2) {
        const lanes_t b_0 = b[i], b_1 = b[i + 1], d_0 = c ? d[i] : zero, d_1 = c ? d[i + 1] : zero;
        lanes_t *at = sum + i;
        lanes_t n_0 = SPREAD(n[0]), n_1 = SPREAD(n[1]), a_0 = a[0], a_1 = a[1];
        lanes_t c_0 = c ? c[0] : zero, c_1 = c ? c[1] : zero;

        lanes_t first = LOW(at[0], a_0, b_0);
        if (c)
            first = LOW(first, c_0, d_0);
        const lanes_t quotient_0 = LOW(zero, first, inverse);
        first = LOW(first, quotient_0, n_0);
        lanes_t second = _mm512_add_epi64(at[1], CARRY(first));
        second = HIGH(LOW(second, a_1, b_0), a_0, b_0);
        second = HIGH(LOW(second, quotient_0, n_1), quotient_0, n_0);
        second = LOW(second, a_0, b_1);
        if (c)
            second = LOW(HIGH(LOW(second, c_1, d_0), c_0, d_0), c_0, d_1);
        const lanes_t quotient_1 = LOW(zero, second, inverse);
        second = LOW(second, quotient_1, n_0);
        at[2] = _mm512_add_epi64(at[2], CARRY(second));
        if (quotients) {
            quotients[i] = quotient_0;
            quotients[i + 1] = quotient_1;
        }

        for (int64_t j = 2; j < limbs; j++) {
            const lanes_t a_2 = a[j], n_2 = SPREAD(n[j]);
            lanes_t ours = at[j], theirs = zero;
            ours = HIGH(LOW(ours, a_2, b_0), a_1, b_0);
            theirs = HIGH(LOW(theirs, quotient_0, n_2), quotient_0, n_1);
            ours = HIGH(LOW(ours, a_1, b_1), a_0, b_1);
            theirs = HIGH(LOW(theirs, quotient_1, n_1), quotient_1, n_0);
            if (c) {
                const lanes_t c_2 = c[j];
                ours = HIGH(LOW(ours, c_2, d_0), c_1, d_0);
                theirs = HIGH(LOW(theirs, c_1, d_1), c_0, d_1);
                c_0 = c_1, c_1 = c_2;
            }
            at[j] = _mm512_add_epi64(ours, theirs);
            a_0 = a_1, a_1 = a_2, n_0 = n_1, n_1 = n_2;
        }
        lanes_t last = HIGH(HIGH(zero, a_1, b_0), quotient_0, n_1);
        last = HIGH(LOW(last, a_1, b_1), a_0, b_1);
        if (c)
            last = HIGH(LOW(HIGH(last, c_1, d_0), c_1, d_1), c_0, d_1);
        at[limbs] = HIGH(LOW(last, quotient_1, n_1), quotient_1, n_0);
        at[limbs + 1] = HIGH(HIGH(zero, a_1, b_1), quotient_1, n_1);
        if (c)
            at[limbs + 1] = HIGH(at[limbs + 1], c_1, d_1);
    }
    const lanes_t mask = SPREAD(LIMB_MASK);
    lanes_t carry = zero;
    for (int64_t j = 0; j < limbs; j++) {
        const lanes_t word = _mm512_add_epi64(sum[limbs + j], carry);
        out[j] = _mm512_and_si512(word, mask);
        carry = CARRY(word);
    }
}

/* The product of pairs. With m of the quotients, x x' = (x x' / R) R - m n; and -m is the complement of its limbs plus
 * 1 - R. The second part is below (8 n^2 + n + R + R n) / R, hence below 2 n. A square has twice x y there. */
IFMA static void multiply_pairs(lanes_t *out, const lanes_t *a, const lanes_t *b, const ring_t *ring)
{
    const int64_t limbs = ring->limbs, part = ring->part;
    const lanes_t mask = SPREAD(LIMB_MASK);
    lanes_t first[MAX_LIMBS / 2], start[MAX_LIMBS / 2], twice[MAX_LIMBS / 2], carry = _mm512_setzero_si512();

    reduced(first, a, b, NULL, NULL, NULL, start, ring);
    for (int64_t j = 0; j < limbs; j++)
        start[j] = _mm512_add_epi64(_mm512_xor_si512(start[j], mask), SPREAD(ring->one_minus_r[j]));
    if (a == b) {
        for (int64_t j = 0; j < limbs; j++) {
            const lanes_t word = _mm512_add_epi64(_mm512_add_epi64(a[part + j], a[part + j]), carry);
            twice[j] = _mm512_and_si512(word, mask);
            carry = CARRY(word);
        }
        reduced(out + part, a, twice, NULL, NULL, start, NULL, ring);
    } else
        reduced(out + part, a, b + part, a + part, b, start, NULL, ring);
    memcpy(out, first, sizeof(lanes_t) * (size_t)limbs);
}

/* out = a b / R modulo the modulus, below twice the modulus (or n, both parts) if a and b are. out may be a or b. */
IFMA static void multiply(lanes_t *out, const lanes_t *a, const lanes_t *b, const ring_t *ring)
{
    if (ring->part < ring->stride)
        multiply_pairs(out, a, b, ring);
    else
        reduced(out, a, b, NULL, NULL, NULL, NULL, ring);
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

/* out[i] = product over steps s and tables t of entries[t][digits[i][s][t]] ^ (2^(squarings (steps - 1 - s))).
 *
 * entries: (tables, height) rows in Montgomery's form; digits: (count, steps, tables). With the comb of powers.py a table is
 * a part and a step one of its columns; with windows a table is a base and a step one of the windows. All
 * powers walk through the tables side by side, so that each table stays in the cache, and stand in out eight beside each
 * other until the end.
 *
 * The addresses that are read depend on the digits. */
EXPORT IFMA void kernel_table_products(
    uint64_t *out, const uint64_t *entries, int64_t tables, int64_t height, const uint16_t *digits, int64_t steps,
    int64_t squarings, int64_t count, const ring_t *ring)
{
    lanes_t product[MAX_LIMBS], entry[MAX_LIMBS], last[MAX_LIMBS];
    const uint64_t *from[LANES];
    uint64_t *to[LANES];
    for (int64_t s = 0; s < steps; s++)
        for (int64_t t = 0; t < tables; t++)
            for (int64_t first = 0; first < count; first += LANES) {
                const int used = at_most_eight(count - first);
                lanes_t *kept = place(out, first, used, last, ring);
                for (int k = 0; k < LANES; k++) {
                    const int64_t power = first + (k < used ? k : used - 1);
                    from[k] = entries + (t * height + digits[(power * steps + s) * tables + t]) * ring->stride;
                }
                load(entry, from, ring);
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

/* out[i] = rows[i] ^ e, where e has the given digits of WINDOW bits, most significant first: one exponent for all rows,
 * so that all lanes do the same. Which entries are read depends on the exponent's digits. */
EXPORT IFMA void kernel_powers(
    uint64_t *out, const uint64_t *rows, const uint8_t *digits, int64_t windows, int64_t count, const ring_t *ring)
{
    lanes_t table[1 << WINDOW][MAX_LIMBS], power[MAX_LIMBS]; /* 0.7 MB of a stack that has 8 */
    const uint64_t *from[LANES];
    uint64_t *to[LANES];
    for (int64_t first = 0; first < count; first += LANES) {
        const int used = at_most_eight(count - first);
        for (int k = 0; k < LANES; k++)
            from[k] = ring->one;
        load(table[0], from, ring);
        batch(from, rows, first, used, ring->stride);
        load(table[1], from, ring);
        for (int entry = 2; entry < 1 << WINDOW; entry++)
            multiply(table[entry], table[entry - 1], table[1], ring);
        memcpy(power, table[digits[0]], sizeof(lanes_t) * (size_t)ring->stride);
        for (int64_t window = 1; window < windows; window++) {
            for (int again = 0; again < WINDOW; again++)
                multiply(power, power, power, ring);
            multiply(power, power, table[digits[window]], ring);
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
