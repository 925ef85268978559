/* What crypto/native takes from AVX-512, in plain C: so any processor runs these files, and every bound that they rest on is
 * looked at while they run. A factor of a product must be below 2^52, of which the processor sees no more; no sum may pass 2^64,
 * no difference fall below 0, no shift lose a bit. Where one does, a line with the place goes to stderr, once for each place.
 *
 * Two things are meant. Masks are 0 - 1. And Montgomery's quotients take the lowest 52 bits of a word with whatever stands above:
 * there, and where a sum begins otherwise, words of 52 bits are added to nothing, for which factors are not looked at.
 */

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define target(list) unused
#define __builtin_cpu_init() ((void)0)
#define __builtin_cpu_supports(name) 1

typedef uint64_t __m512i __attribute__((vector_size(64), may_alias));
typedef int64_t signed_lanes __attribute__((vector_size(64)));
typedef unsigned char __mmask8;

#define EACH(k) for (int k = 0; k < 8; k++)

static void look(int is_broken, const char *what, const char *file, int line)
{
    static unsigned char told[4096];
    if (is_broken && !told[line % 4096]) {
        told[line % 4096] = 1;
        fprintf(stderr, "bound broken: %s, %s:%d\n", what, file, line);
    }
}

static inline __m512i added(__m512i a, __m512i b, const char *file, int line)
{
    uint64_t over = 0;
    EACH(k) over |= a[k] + b[k] < a[k];
    look(over != 0, "a sum passes 2^64", file, line);
    return a + b;
}

static inline __m512i less(__m512i a, __m512i b, const char *file, int line)
{
    uint64_t under = 0;
    EACH(k) under |= a[k] < b[k] && !(a[k] == 0 && b[k] == 1);
    look(under != 0, "a difference falls below 0", file, line);
    return a - b;
}

static inline __m512i shifted(__m512i a, unsigned bits, const char *file, int line)
{
    uint64_t lost = 0;
    EACH(k) lost |= bits && a[k] >> (64 - bits);
    look(lost != 0, "a shift loses bits", file, line);
    return a << bits;
}

static inline __m512i multiplied(__m512i sum, __m512i a, __m512i b, int is_high, int is_montgomery, const char *file, int line)
{
    const uint64_t mask = (1ULL << 52) - 1;
    uint64_t seen = 0, over = 0, begun = 0;
    __m512i out;
    EACH(k) {
        const unsigned __int128 product = (unsigned __int128)(a[k] & mask) * (b[k] & mask);
        const uint64_t half = is_high ? (uint64_t)(product >> 52) : (uint64_t)product & mask;
        seen |= a[k] | b[k];
        begun |= sum[k];
        out[k] = sum[k] + half;
        over |= out[k] < half;
    }
    look(seen > mask && (begun || !is_montgomery), "a factor reaches 2^52", file, line);
    look(over != 0, "a sum of products passes 2^64", file, line);
    return out;
}

#define _mm512_add_epi64(a, b) added(a, b, __FILE__, __LINE__)
#define _mm512_sub_epi64(a, b) less(a, b, __FILE__, __LINE__)
#define _mm512_slli_epi64(a, bits) shifted(a, bits, __FILE__, __LINE__)
#define _mm512_madd52lo_epu64(sum, a, b) multiplied(sum, a, b, 0, LIMB_BITS == 52, __FILE__, __LINE__)
#define _mm512_madd52hi_epu64(sum, a, b) multiplied(sum, a, b, 1, LIMB_BITS == 52, __FILE__, __LINE__)
#define _mm512_srli_epi64(a, bits) ((__m512i)(a) >> (bits))
#define _mm512_srai_epi64(a, bits) ((__m512i)((signed_lanes)(a) >> (bits)))
#define _mm512_and_si512(a, b) ((a) & (b))
#define _mm512_or_si512(a, b) ((a) | (b))
#define _mm512_xor_si512(a, b) ((a) ^ (b))
#define _mm512_set1_epi64(word) ((__m512i){0} + (uint64_t)(word))
#define _mm512_setzero_si512() ((__m512i){0})
#define _mm_prefetch(address, hint) ((void)(address))

static inline __m512i _mm512_loadu_si512(const void *from)
{
    __m512i out;
    memcpy(&out, from, sizeof out);
    return out;
}

static inline void _mm512_storeu_si512(void *to, __m512i a)
{
    memcpy(to, &a, sizeof a);
}

static inline __m512i _mm512_mask_mov_epi64(__m512i a, __mmask8 mask, __m512i b)
{
    EACH(k) a[k] = mask >> k & 1 ? b[k] : a[k];
    return a;
}

static inline __m512i _mm512_unpacklo_epi64(__m512i a, __m512i b)
{
    __m512i out;
    EACH(k) out[k] = k % 2 ? b[k - 1] : a[k];
    return out;
}

static inline __m512i _mm512_unpackhi_epi64(__m512i a, __m512i b)
{
    __m512i out;
    EACH(k) out[k] = k % 2 ? b[k] : a[k + 1];
    return out;
}

static inline __m512i _mm512_shuffle_i64x2(__m512i a, __m512i b, int order)
{
    __m512i out;
    EACH(k) out[k] = (k < 4 ? a : b)[(order >> k / 2 * 2 & 3) * 2 + k % 2];
    return out;
}
