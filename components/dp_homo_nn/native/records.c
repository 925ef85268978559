/* Convolutions with maximum pooling behind them, and their gradients, of one record after the other.
 *
 * What a record gives depends on nothing but that record: every number below is a sum in one fixed order, by one kind of
 * instruction (a fused multiply-add of float32), and no sum holds numbers of two records but `records_weighted_sums`, which
 * is one of whole numbers and exact. So the bits are the same in any company, and on all processors that run this file:
 * wider registers hold more sums, not other ones.
 *
 * Only the largest output of each window of the pooling has a slope, so that gradients are sums over windows, not over
 * the places of the convolution: a fourth of the work for windows of two by two, a ninth for three by three.
 *
 * An image is (rows, columns, channels) with its border. A place of the convolution reads `kernel_rows` runs of `run` =
 * kernel columns x channels consecutive numbers. Reads may go on for up to 15 numbers behind a run, and memory must
 * last for that; what is read there is never used.
 */

#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define MAX_PAIRS 10

typedef struct {
    int64_t image;                   /* numbers from one image to the next */
    int64_t row;                     /* numbers in a row of an image: columns x channels */
    int64_t kernel_rows, run;        /* of what a place reads */
    int64_t down, right;             /* numbers from a place to the one below, and to the one beside it */
    int64_t outputs, padded;         /* channels of the result, and the next multiple of 16 */
    int64_t window_rows, window_columns;
    int64_t windows_down, windows_right;
    const int64_t *starts;           /* of each window's first place, in an image */
    const int64_t *places;           /* from the start of a window to each of its places */
} shape_t;

#define MIN_EXPONENT (-100)

/* The power of two that `record_arithmetic.shorten` takes for float32 numbers of which this is the largest. */
static double unit_of(float largest, int64_t bits)
{
    int exponent = 0;
    if (isfinite(largest))
        frexpf(largest, &exponent);
    if (exponent < MIN_EXPONENT + bits)
        exponent = MIN_EXPONENT + (int)bits;
    return ldexp(1.0, exponent - (int)bits);
}

#if defined(__x86_64__) && defined(__GNUC__)

#include <immintrin.h>

#define LANES 16
#define NAMED(name) name##_16
#define TARGET __attribute__((target("avx512f,avx2,fma")))
#define VECTOR __m512
#define SPREAD _mm512_set1_ps
#define LOAD _mm512_loadu_ps
#define STORE _mm512_storeu_ps
#define FMA _mm512_fmadd_ps
#define MULTIPLY _mm512_mul_ps
#define ROUNDED(a) _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT)
#define MAX_VECTORS 4
#define PLACES_FOR(vectors) ((vectors) == 4 ? 6 : 9)
#include "records_lanes.h"

#define LANES 8
#define NAMED(name) name##_8
#define TARGET __attribute__((target("avx2,fma")))
#define VECTOR __m256
#define SPREAD _mm256_set1_ps
#define LOAD _mm256_loadu_ps
#define STORE _mm256_storeu_ps
#define FMA _mm256_fmadd_ps
#define MULTIPLY _mm256_mul_ps
#define ROUNDED(a) _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT)
#define MAX_VECTORS 2
#define PLACES_FOR(vectors) 6
#include "records_lanes.h"

/* How many float32 numbers a register holds: 16, 8, or 0 on processors that cannot run this file. */
EXPORT int64_t records_lanes(void)
{
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return 0;
    return __builtin_cpu_supports("avx512f") ? 16 : 8;
}

#define IN_LANES(name, ...) (lanes == 16 ? name##_16(__VA_ARGS__) : name##_8(__VA_ARGS__))

/* out (count, windows, outputs): the largest of each window, with the bias (padded); chosen (count, windows, padded): which one.
 * weight (kernel_rows, run, padded); strip has room for the places of one row of windows, (places, padded). */
EXPORT void records_pooled(int64_t lanes, const shape_t *shape, double *out, int32_t *chosen, const float *images,
                           const float *weight, const float *bias, float *strip, int64_t count)
{
    IN_LANES(pooled, shape, out, chosen, images, weight, bias, strip, count);
}

/* Gradients of weights (outputs, kernel_rows, run) as whole numbers (count, weights) times units, their sums of squares, and
 * gradients of biases (count, outputs). slopes (count, windows, outputs); room for one gradient, and for
 * a number and a place of each window. */
EXPORT void records_weights(int64_t lanes, const shape_t *shape, float *whole, double *units, double *squares, double *biases,
                            const float *images, const float *slopes, const int32_t *chosen, int64_t bits, float *room,
                            float *of_windows, int64_t *at_windows, int64_t count)
{
    IN_LANES(weights, shape, whole, units, squares, biases, images, slopes, chosen, bits, room, of_windows, at_windows, count);
}

/* out (count, image): slopes of the images, borders included. weight (outputs, kernel_rows, run); room for `outputs` + 1 terms. */
EXPORT void records_inputs(int64_t lanes, const shape_t *shape, float *out, const float *slopes, const int32_t *chosen,
                           const float *weight, float *of_terms, int64_t *at_terms, int64_t count)
{
    IN_LANES(inputs, shape, out, slopes, chosen, weight, of_terms, at_terms, count);
}

/* sums[j] = sum over records of factors[i] whole[i][j]: whole numbers of at most 2^53, whatever the order. */
EXPORT void records_weighted_sums(int64_t lanes, int64_t *sums, const float *whole, const double *factors, int64_t count,
                                  int64_t columns)
{
    IN_LANES(weighted_sums, sums, whole, factors, count, columns);
}

/* Hyperbolic tangent as in `record_arithmetic.tanh`, operation by operation; table[i] = exp(-i / 1024) up to 40. */
EXPORT void records_tanh(int64_t lanes, double *out, const double *in, const double *table, int64_t count)
{
    IN_LANES(hyperbolic_tangents, out, in, table, count);
}

#else

EXPORT int64_t records_lanes(void) { return 0; }

#endif

/* An empty module, by which Python finds the file; the functions above are called through ctypes. */
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, .m_name = "_records", .m_size = 0};

PyMODINIT_FUNC PyInit__records(void)
{
    return PyModule_Create(&module);
}
