// Thompson sampling: NumPy's normal numbers from one generator per scope (`kernels.pcg64`), weights drawn with them.
//
// The words of a generator are [state low, state high, increment low, increment high, ...]. `tables` holds the three
// tables of NumPy's ziggurat one after the other: ki (whole numbers), wi and fi (the bits of floats).

constexpr double TAIL = 3.6541528853610087963519472518, INVERSE_TAIL = 0.27366123732975827203338247596;
constexpr u64 MULTIPLIER_LOW = 0x4385DF649FCCF645ull, MULTIPLIER_HIGH = 0x2360ED051FC65DA4ull;

struct Generator {
    u64 low, high, add_low, add_high;
};

__device__ __forceinline__ u64 next_bits(Generator& g) {
    const u64 low = g.low * MULTIPLIER_LOW;
    g.high = g.high * MULTIPLIER_LOW + g.low * MULTIPLIER_HIGH + __umul64hi(g.low, MULTIPLIER_LOW) + g.add_high;
    g.low = low + g.add_low;
    if (g.low < low) g.high += 1;
    const u64 mixed = g.high ^ g.low;
    const int turn = (int)(g.high >> 58);
    return mixed >> turn | mixed << (64 - turn & 63);
}

__device__ __forceinline__ double uniform(Generator& g) { return (double)(next_bits(g) >> 11) * 0x1p-53; }

__device__ double standard_normal(Generator& g, const u64* tables) {
    const double *wi = (const double*)(tables + 256), *fi = (const double*)(tables + 512);
    while (true) {
        u64 draw = next_bits(g);
        const int layer = (int)(draw & 255);
        draw >>= 8;
        const u64 size = draw >> 1 & 0x000FFFFFFFFFFFFFull;
        const double x = (draw & 1 ? -1.0 : 1.0) * ((double)size * wi[layer]);
        if (size < tables[layer]) return x;
        if (layer == 0) {
            while (true) {
                const double beyond = -INVERSE_TAIL * log1p(-uniform(g)), height = -log1p(-uniform(g));
                if (height + height > beyond * beyond) return size >> 8 & 1 ? -(TAIL + beyond) : TAIL + beyond;
            }
        } else if ((fi[layer - 1] - fi[layer]) * uniform(g) + fi[layer] < exp(-0.5 * x * x)) {
            return x;
        }
    }
}

// Overwrite A^-1 with its Cholesky factor; a direction without variance gets none. `z` is scratch.
__device__ __forceinline__ void factor(double* row, double* z, bool active) {
    for (int j = 0; j < DIM; j++) {
        const double* pivot = row + j * (j + 1) / 2;
        for (int i = active ? j + group_lane() : DIM; i < DIM; i += GROUP) {
            const double* line = row + i * (i + 1) / 2;
            double total = line[j];
            for (int k = 0; k < j; k++) total -= line[k] * pivot[k];
            z[i] = total;
        }
        __syncwarp();
        if (active) {
            const double square = z[j], inverse = square > 0.0 ? 1.0 / sqrt(square) : 0.0;
            for (int i = j + group_lane(); i < DIM; i += GROUP) row[i * (i + 1) / 2 + j] = z[i] * inverse;
        }
        __syncwarp();
    }
}

// Index of the best arm under weights drawn from N(theta, scale^2 A^-1); -1 if not usable. Overwrites the row.
__device__ __forceinline__ int sampled_arm(double ridge, double scale, double* row, double* z, double* room, Pool pool,
                                           i64* words, const u64* tables) {
    const bool active = pool.count > 0;
    bool wrong = false;
    Generator g = {0, 0, 0, 0};
    if (active && group_lane() == 0) g = {(u64)words[0], (u64)words[1], (u64)words[2], (u64)words[3]};
    for (int first = 0; __any_sync(EVERYONE, first < pool.count); first += CHUNK) {  // before anything is drawn
        if (first > 0) {
            __syncwarp();
            pool.here = start_chunk(room, pool.arms, first, pool.count);
            send();
            arrived<0>();
            __syncwarp();
        }
        const int last = first + CHUNK < pool.count ? first + CHUNK : pool.count;
        for (int k = first + group_lane(); k < last; k += GROUP) {
            double size = 0.0;
            for (int i = 0; i < DIM; i++) size += pool.here[(k - first) * DIM + i] * pool.here[(k - first) * DIM + i];
            wrong = wrong || !(size <= LARGEST_SQUARE * ridge);
        }
    }
    const bool refused = group_any(wrong), draws = active && !refused;
    factor(row, z, draws);
    if (draws && group_lane() == 0) {
        for (int i = 0; i < DIM; i++) z[i] = standard_normal(g, tables);
        words[0] = (i64)g.low, words[1] = (i64)g.high;
    }
    __syncwarp();
    if (draws) {
        for (int i = group_lane(); i < DIM; i += GROUP) {
            double total = 0.0;
            for (int j = 0; j <= i; j++) total += row[i * (i + 1) / 2 + j] * z[j];
            row[THETA + i] += scale * total;
        }
    }
    __syncwarp();
    const bool once = !__any_sync(EVERYONE, pool.count > CHUNK);
    double best = -LARGEST_FLOAT;
    int pick = NONE;
    wrong = !draws;
    for (int first = 0; __any_sync(EVERYONE, first < pool.count); first += CHUNK) {
        if (!once) {
            __syncwarp();
            pool.here = start_chunk(room, pool.arms, first, pool.count);
            send();
            arrived<0>();
            __syncwarp();
        }
        const int last = first + CHUNK < pool.count ? first + CHUNK : pool.count;
        for (int k = first + group_lane(); k < last; k += GROUP) {
            double score = 0.0;
            for (int i = 0; i < DIM; i++) score += pool.here[(k - first) * DIM + i] * row[THETA + i];
            wrong = wrong || !is_finite(score);
            consider(score, k, best, pick);
        }
    }
    const int arm = first_best(best, pick);
    return group_any(wrong) ? -1 : arm;
}
