/* The functions of records.c for registers of LANES float32 numbers; included once for each kind. */

/* Places beside one another by channels: (places, vectors) sums in registers, over all that a place reads. */
TARGET static inline __attribute__((always_inline)) void NAMED(tile)(const int places, const int vectors,
    const shape_t *shape, float *out, const float *image, const float *weight)
{
    VECTOR sums[9][MAX_VECTORS];
#pragma GCC unroll 9
    for (int p = 0; p < places; p++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            sums[p][v] = SPREAD(0.0f);
    for (int64_t r = 0; r < shape->kernel_rows; r++) {
        const float *x = image + r * shape->row, *end = x + shape->run;
        for (; x < end; x++, weight += shape->padded) {
            VECTOR w[MAX_VECTORS];
#pragma GCC unroll 4
            for (int v = 0; v < vectors; v++)
                w[v] = LOAD(weight + v * LANES);
#pragma GCC unroll 9
            for (int p = 0; p < places; p++) {
                const VECTOR number = SPREAD(x[p * shape->right]);
#pragma GCC unroll 4
                for (int v = 0; v < vectors; v++)
                    sums[p][v] = FMA(number, w[v], sums[p][v]);
            }
        }
    }
#pragma GCC unroll 9
    for (int p = 0; p < places; p++)
#pragma GCC unroll 4
        for (int v = 0; v < vectors; v++)
            STORE(out + p * shape->padded + v * LANES, sums[p][v]);
}

#define TILES(vectors)                                                                                                          \
    switch (places) {                                                                                                           \
    case 1: NAMED(tile)(1, vectors, shape, out, image, weight); break;                                                          \
    case 2: NAMED(tile)(2, vectors, shape, out, image, weight); break;                                                          \
    case 3: NAMED(tile)(3, vectors, shape, out, image, weight); break;                                                          \
    case 4: NAMED(tile)(4, vectors, shape, out, image, weight); break;                                                          \
    case 5: NAMED(tile)(5, vectors, shape, out, image, weight); break;                                                          \
    case 6: NAMED(tile)(6, vectors, shape, out, image, weight); break;                                                          \
    case 7: NAMED(tile)(7, vectors, shape, out, image, weight); break;                                                          \
    case 8: NAMED(tile)(8, vectors, shape, out, image, weight); break;                                                          \
    default: NAMED(tile)(9, vectors, shape, out, image, weight);                                                                \
    }

TARGET static void NAMED(tiles)(int vectors, int64_t places, const shape_t *shape, float *out, const float *image,
                                const float *weight)
{
#if MAX_VECTORS == 4
    if (vectors == 4) {
        TILES(4)
    } else
#endif
    if (vectors == 2) {
        TILES(2)
    } else {
        TILES(1)
    }
}

/* The convolution at `places` places beside one another, without its bias. */
TARGET static void NAMED(convolved)(const shape_t *shape, float *out, const float *image, const float *weight, int64_t places)
{
    int vectors;
    for (int64_t at = 0; at < shape->padded; at += vectors * LANES) {
        const int64_t left = (shape->padded - at) / LANES;
        vectors = left >= MAX_VECTORS ? MAX_VECTORS : left >= 2 ? 2 : 1;
        const int64_t parts = (places + PLACES_FOR(vectors) - 1) / PLACES_FOR(vectors), each = (places + parts - 1) / parts;
        for (int64_t p = 0; p < places; p += each)
            NAMED(tiles)(vectors, each < places - p ? each : places - p, shape, out + p * shape->padded + at,
                         image + p * shape->right, weight + at);
    }
}

/* The largest of a window by channels, the first of several; a NaN counts as larger than everything. */
TARGET static void NAMED(pooled)(const shape_t *shape, double *out, int32_t *chosen, const float *images, const float *weight,
                                 const float *bias, float *strip, int64_t count)
{
    const int64_t places = shape->windows_right * shape->window_columns;
    for (int64_t i = 0; i < count; i++)
        for (int64_t y = 0; y < shape->windows_down; y++) {
            for (int64_t r = 0; r < shape->window_rows; r++)
                NAMED(convolved)(shape, strip + r * places * shape->padded,
                                 images + i * shape->image + (y * shape->window_rows + r) * shape->down, weight, places);
            for (int64_t x = 0; x < shape->windows_right; x++, chosen += shape->padded, out += shape->outputs)
                for (int64_t o = 0; o < shape->outputs; o += LANES) {
                    float largest[LANES] = {0};
                    for (int64_t r = 0; r < shape->window_rows; r++)
                        for (int64_t c = 0; c < shape->window_columns; c++) {
                            const float *found = strip + (r * places + x * shape->window_columns + c) * shape->padded + o;
                            const int32_t number = (int32_t)(r * shape->window_columns + c);
                            for (int k = 0; k < LANES; k++) {
                                const float value = found[k] + bias[o + k];
                                const int is_larger = number == 0 || value > largest[k] || value != value;
                                largest[k] = is_larger ? value : largest[k];
                                chosen[o + k] = is_larger ? number : chosen[o + k];
                            }
                        }
                    for (int k = 0; k < LANES && o + k < shape->outputs; k++)
                        out[o + k] = largest[k];
                }
        }
}

/* At each of `pairs` pairs (row of the kernel, register in its run): the sum over terms of a factor times the numbers there. */
TARGET static inline __attribute__((always_inline)) void NAMED(pairs_of)(const int pairs, VECTOR *sums, const int64_t *offsets,
    const float *numbers, const float *factors, const int64_t *starts, int64_t terms)
{
    VECTOR held[MAX_PAIRS];
#pragma GCC unroll 10
    for (int g = 0; g < pairs; g++)
        held[g] = SPREAD(0.0f);
    for (int64_t t = 0; t < terms; t++) {
        const VECTOR factor = SPREAD(factors[t]);
        const float *at = numbers + starts[t];
#pragma GCC unroll 10
        for (int g = 0; g < pairs; g++)
            held[g] = FMA(factor, LOAD(at + offsets[g]), held[g]);
    }
#pragma GCC unroll 10
    for (int g = 0; g < pairs; g++)
        sums[g] = held[g];
}

/* The same for all pairs of a kernel. The sums go to out, or are added to what is there: `out_row` numbers from one row of the
 * kernel to the next, of which the run's own are written and no others. `row` is that distance among the numbers. */
TARGET static void NAMED(sums_of_terms)(const shape_t *shape, float *out, int64_t out_row, int is_added, const float *numbers,
                                        int64_t row, const float *factors, const int64_t *starts, int64_t terms)
{
    const int64_t registers = (shape->run + LANES - 1) / LANES, pairs = shape->kernel_rows * registers;
    for (int64_t first = 0; first < pairs; first += MAX_PAIRS) {
        const int some = pairs - first < MAX_PAIRS ? (int)(pairs - first) : MAX_PAIRS;
        int64_t offsets[MAX_PAIRS];
        VECTOR sums[MAX_PAIRS];
        for (int g = 0; g < some; g++)
            offsets[g] = (first + g) / registers * row + (first + g) % registers * LANES;
        switch (some) {
        case 1: NAMED(pairs_of)(1, sums, offsets, numbers, factors, starts, terms); break;
        case 2: NAMED(pairs_of)(2, sums, offsets, numbers, factors, starts, terms); break;
        case 3: NAMED(pairs_of)(3, sums, offsets, numbers, factors, starts, terms); break;
        case 4: NAMED(pairs_of)(4, sums, offsets, numbers, factors, starts, terms); break;
        case 5: NAMED(pairs_of)(5, sums, offsets, numbers, factors, starts, terms); break;
        case 6: NAMED(pairs_of)(6, sums, offsets, numbers, factors, starts, terms); break;
        case 7: NAMED(pairs_of)(7, sums, offsets, numbers, factors, starts, terms); break;
        case 8: NAMED(pairs_of)(8, sums, offsets, numbers, factors, starts, terms); break;
        case 9: NAMED(pairs_of)(9, sums, offsets, numbers, factors, starts, terms); break;
        default: NAMED(pairs_of)(10, sums, offsets, numbers, factors, starts, terms);
        }
        for (int g = 0; g < some; g++) {
            const int64_t in_run = (first + g) % registers * LANES, left = shape->run - in_run;
            float of_register[LANES], *to = out + (first + g) / registers * out_row + in_run;
            STORE(of_register, sums[g]);
            for (int k = 0; k < LANES && k < left; k++)
                to[k] = is_added ? to[k] + of_register[k] : of_register[k];
        }
    }
}

/* The numbers over a power of two, rounded to whole ones; the power, and the sum of squares. */
TARGET static void NAMED(shortened)(float *whole, double *unit, double *squares, const float *numbers, int64_t bits,
                                    int64_t count)
{
    float largest[LANES] = {0};
    int is_odd[LANES] = {0};
    int64_t at = 0, sum = 0;
    for (; at + LANES <= count; at += LANES)
        for (int k = 0; k < LANES; k++) {
            const float size = fabsf(numbers[at + k]);
            largest[k] = size > largest[k] ? size : largest[k];
            is_odd[k] |= !(size <= FLT_MAX);
        }
    for (; at < count; at++) {
        const float size = fabsf(numbers[at]);
        largest[0] = size > largest[0] ? size : largest[0];
        is_odd[0] |= !(size <= FLT_MAX);
    }
    for (int k = 1; k < LANES; k++) {
        largest[0] = largest[k] > largest[0] ? largest[k] : largest[0];
        is_odd[0] |= is_odd[k];
    }
    *unit = unit_of(largest[0], bits);
    const float inverse = (float)(1 / *unit);
    const VECTOR factor = SPREAD(inverse);
    for (at = 0; at + LANES <= count; at += LANES)
        STORE(whole + at, ROUNDED(MULTIPLY(LOAD(numbers + at), factor)));
    for (; at < count; at++)
        whole[at] = rintf(numbers[at] * inverse);
    if (is_odd[0]) {
        *squares = NAN;
        return;
    }
    for (at = 0; at < count; at++) {
        const int32_t number = (int32_t)whole[at];
        sum += (int64_t)number * number;
    }
    *squares = (double)sum;
}

TARGET static void NAMED(weights)(const shape_t *shape, float *whole, double *units, double *squares, double *biases,
                                  const float *images, const float *slopes, const int32_t *chosen, int64_t bits, float *room,
                                  float *of_windows, int64_t *at_windows, int64_t count)
{
    const int64_t windows = shape->windows_down * shape->windows_right, each = shape->kernel_rows * shape->run;
    for (int64_t i = 0; i < count; i++) {
        const float *of_record = slopes + i * windows * shape->outputs;
        const int32_t *in_windows = chosen + i * windows * shape->padded;
        for (int64_t o = 0; o < shape->outputs; o++) {
            double bias = 0;
            for (int64_t w = 0; w < windows; w++) {
                of_windows[w] = of_record[w * shape->outputs + o];
                at_windows[w] = shape->starts[w] + shape->places[in_windows[w * shape->padded + o]];
                bias += of_windows[w];
            }
            biases[i * shape->outputs + o] = bias;
            NAMED(sums_of_terms)(shape, room + o * each, shape->run, 0, images + i * shape->image, shape->row, of_windows,
                                 at_windows, windows);
        }
        const int64_t numbers = shape->outputs * each;
        NAMED(shortened)(whole + i * numbers, units + i, squares + i, room, bits, numbers);
    }
}

TARGET static void NAMED(inputs)(const shape_t *shape, float *out, const float *slopes, const int32_t *chosen,
                                 const float *weight, float *of_terms, int64_t *at_terms, int64_t count)
{
    const int64_t windows = shape->windows_down * shape->windows_right, each = shape->kernel_rows * shape->run;
    for (int64_t i = 0; i < count; i++, out += shape->image) {
        memset(out, 0, (size_t)shape->image * sizeof *out);
        for (int64_t w = 0; w < windows; w++, slopes += shape->outputs, chosen += shape->padded)
            for (int64_t place = 0; place < shape->window_rows * shape->window_columns; place++) {
                int64_t terms = 0;
                for (int64_t o = 0; o < shape->outputs; o++) {
                    of_terms[terms] = slopes[o];
                    at_terms[terms] = o * each;
                    terms += chosen[o] == place;
                }
                NAMED(sums_of_terms)(shape, out + shape->starts[w] + shape->places[place], shape->row, 1, weight, shape->run,
                                     of_terms, at_terms, terms);
            }
    }
}

/* Records with the factor zero are left out: theirs may be no numbers. */
TARGET static void NAMED(weighted_sums)(int64_t *sums, const float *whole, const double *factors, int64_t count, int64_t columns)
{
    double held[1024];
    for (int64_t first = 0; first < columns; first += 1024) {
        const int64_t some = columns - first < 1024 ? columns - first : 1024;
        memset(held, 0, sizeof held);
        for (int64_t i = 0; i < count; i++)
            if (factors[i] != 0)
                for (int64_t j = 0; j < some; j++)
                    held[j] += factors[i] * whole[i * columns + first + j];
        for (int64_t j = 0; j < some; j++)
            sums[first + j] = (int64_t)held[j];
    }
}

TARGET static void NAMED(hyperbolic_tangents)(double *out, const double *in, const double *table, int64_t count)
{
    for (int64_t at = 0; at < count; at++) {
        double t = fabs(in[at]) * 2;
        t = (t <= 40 ? t : 40) * 1024;
        const double steps = floor(t), rest = (t - steps) * (1.0 / 1024);
        const double series = (((rest * (-1.0 / 6) + 0.5) * rest - 1) * rest) + 1;
        const double small = table[(int32_t)steps] * series;
        out[at] = copysign((1 - small) / (small + 1), in[at]);
    }
}

#undef LANES
#undef NAMED
#undef TARGET
#undef VECTOR
#undef SPREAD
#undef LOAD
#undef STORE
#undef FMA
#undef MULTIPLY
#undef ROUNDED
#undef MAX_VECTORS
#undef PLACES_FOR
