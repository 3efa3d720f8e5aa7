// DriftUCB for many scopes, a warp for each: `kernels.driftucb.drift`.
//
// Vectors and matrices are shared out among lanes, single numbers are left to one lane; what it finds lies in `memo` in
// shared memory.
//
// Macros: those of drift_world.cuh, WARPS of a block, LEAST_BLOCKS; GROUP is WARP.

// Choosing ------------------------------------------------------------------------------------------------------------

// Weighted mean of the means and covariances of the models that act, [matrix, theta], matrix first.
__device__ void blend(const double* rules, const double* memo, const double* bank, int columns, double* result) {
    const double* weights = memo + MEMO;
    const int packed = columns * (columns + 1) / 2;
    double mine[ACTING];
    int heaviest = 0;
    for (int m = 1; m < ACTING; m++) {
        if (weights[m] > weights[heaviest]) heaviest = m;
    }
    for (int m = 0; m < ACTING; m++) {
        mine[m] = rules[MIX] > 0.0 ? weights[m] : m == heaviest;
        if (mine[m] < LIGHT) mine[m] = 0.0;
    }
    for (int i = group_lane(); i < packed + columns; i += GROUP) {
        double total = 0.0;
        const int from = i < packed ? 1 + columns + i : 1 + i - packed;
#pragma unroll
        for (int m = 0; m < ACTING; m++) {
            if (mine[m] != 0.0) {
                const double scale = m == 0 && i < packed ? mine[m] * memo[NOISE] : mine[m];
                total += scale * bank[(1 + m) * RUNG + from];
            }
        }
        result[i] = total;
    }
    __syncwarp();
}

// x' C x and theta'x and |x|^2 in the frame's units, of the arm of one lane.
template <int COLS>
__device__ __forceinline__ void judge(const double* model, const double* units, const double* arm, double& mean,
                                      double& size, double& square) {
    constexpr int PACKED = COLS * (COLS + 1) / 2;
    double total = 0.0;
    mean = size = 0.0;
    if constexpr (COLS <= 32) {
        double x[COLS];
        const double2* pairs = (const double2*)model;
        double2 pair = pairs[0];
#pragma unroll
        for (int i = 0; i < COLS; i++) {
            x[i] = i < DIM ? arm[i] : 1.0;
            mean += x[i] * model[PACKED + i];
            size += x[i] * units[i] * (x[i] * units[i]);
        }
#pragma unroll
        for (int i = 0; i < COLS; i++) {
            double half = 0.0;
#pragma unroll
            for (int j = 0; j <= i; j++) {
                const int at = i * (i + 1) / 2 + j;
                if (at % 2 == 0) pair = pairs[at / 2];
                const double entry = at % 2 == 0 ? pair.x : pair.y;
                half += (j == i ? 0.5 * entry : entry) * x[j];
            }
            total += half * x[i];
        }
    } else {
        for (int i = 0; i < COLS; i++) {
            const double xi = i < DIM ? arm[i] : 1.0;
            const double* line = model + i * (i + 1) / 2;
            double half = 0.5 * line[i] * xi;
            for (int j = 0; j < i; j++) half += line[j] * arm[j];
            total += half * xi;
            mean += xi * model[PACKED + i];
            size += xi * units[i] * (xi * units[i]);
        }
    }
    square = larger(2.0 * total, 0.0);
}

__device__ int choose_scope(const double* rules, double* shared, const double* bank, const double* arms, i64 count) {
    const double* memo = shared;
    const int columns = (int)memo[COLUMNS];
    const double *units = memo + VECTORS + MOST, *anchor = memo + VECTORS + 2 * MOST;
    double *model = shared + AT_ROWS, *room = shared + AT_POOL;
    const int packed = columns * (columns + 1) / 2, lane = group_lane();
    const i64 step = count <= SMALL ? 1 : (count - 1) / SHOWN + 1, shown = (count - 1) / step + 1;  // arms that show how much is known
    const double* pool = start_numbers(room, arms, (int)(count < CHUNK ? count : CHUNK) * DIM);
    send();
    blend(rules, memo, bank, columns, model);
    double trace = 0.0;
    for (int i = lane; i < columns; i += GROUP) {
        if (memo[ANCHORED] > 0.0 && (memo[REWARD_SQUARES] > 0.0 || memo[SPREAD] > 0.0)) model[packed + i] += anchor[i];
        trace += model[i * (i + 1) / 2 + i] / (units[i] * units[i]);
    }
    trace = group_sum(trace);
    arrived<0>();
    __syncwarp();

    // The first sweep sees what the pool is like, the second scores. A pool of one chunk keeps its numbers in between.
    double mean = 0.0, size = 0.0, square = 0.0, largest = 0.0, least = LARGEST_FLOAT, sum = 0.0;
    double explore = 0.0, best = -LARGEST_FLOAT;
    bool wrong = false, by_size = false;
    int pick = NONE;
    for (int sweep = 0; sweep < 2; sweep++) {
        for (i64 first = 0; first < count; first += CHUNK) {
            const i64 last = first + CHUNK < count ? first + CHUNK : count;
            if (count > CHUNK && (sweep || first)) {
                __syncwarp();
                pool = start_numbers(room, arms + first * DIM, (int)(last - first) * DIM);
                send();
                arrived<0>();
                __syncwarp();
            }
            for (i64 k = first + lane; k < last; k += GROUP) {
                if (sweep == 0 || count > CHUNK || CHUNK > GROUP) {
                    const double* arm = pool + (k - first) * DIM;
                    READ_AGAIN;
                    if (columns == DIM) {
                        judge<DIM>(model, units, arm, mean, size, square);
                    } else {
                        judge<MOST>(model, units, arm, mean, size, square);
                    }
                }
                if (sweep == 0) {
                    wrong = wrong || !is_finite(size);
                    largest = larger(largest, size);
                    least = smaller(least, size);
                    if (k % step == 0) sum += square;
                } else {
                    const double score = by_size ? rules[EXPLORE] * sqrt(size) : mean + explore * sqrt(square);
                    if (score > best) {
                        if (pick == NONE || best < score - TIE * fabs(score)) pick = (int)k;
                        best = score;
                    }
                }
            }
        }
        if (sweep == 0) {
            if (group_any(wrong)) return -1;
            largest = group_max(largest);
            least = -group_max(-least);
            sum = group_sum(sum);
            if (largest < SMALLEST) return 0;
            double most = LARGEST * memo[FIRST_SQUARE];
            if (memo[SPREAD] > 0.0) most = larger(most, largest);
            by_size = most == 0.0 || (least > most && memo[TRIED] < TRIAL);
            if (!by_size && largest > most) return -1;
            explore = rules[EXPLORE];
            const double known = memo[PICK_SHARES] * trace;
            if (known > 0.0) {
                const double spread = memo[PICK_COUNT] * sum / (shown * SLACK * known);
                explore = smaller(explore * larger(spread, 1.0), rules[EXPLORE_MOST]);
            }
            if (are_clicks(memo)) explore *= CLICK_EXPLORE;
        }
    }
    const double highest = group_max(best);
    const int arm = group_min(best >= highest - TIE * fabs(highest) ? pick : NONE);
    return arm == NONE ? 0 : arm;
}

// Kernels -------------------------------------------------------------------------------------------------------------

template <bool LEARN, bool CHOOSE>
__device__ __forceinline__ void work(i64 n, const double* rules, double* memos, double* banks, const i64* scopes,
                                     const double* played, const double* rewards, const double* features,
                                     const i64* offsets, i64* status, i64* arms) {
    SHARED_MEMORY(memory);
    const int warp = threadIdx.x / WARP;
    double* shared = memory + (i64)warp * SHARED;
    for (i64 index = (i64)blockIdx.x * WARPS + warp; index < n; index += (i64)gridDim.x * WARPS) {
        double *memo = memos + scopes[index] * MEMO_ROOM, *bank = banks + scopes[index] * (MODELS * RUNG);
        start_pairs(shared, memo, MEMO_ROOM);
        send();
        arrived<0>();
        __syncwarp();
        if (LEARN) {
            const int fired = learn_scope(rules, shared, bank, played + index * DIM, rewards[index]);
            __syncwarp();
            if (fired >= 0) {
                for (int i = 2 * group_lane(); i < MEMO_ROOM; i += 2 * GROUP)
                    *(double2*)(memo + i) = *(const double2*)(shared + i);
            }
            if (group_lane() == 0) status[index] = fired;
        }
        if (CHOOSE) {
            const i64 first = offsets[index];
            const int arm = choose_scope(rules, shared, bank, features + first * DIM, offsets[index + 1] - first);
            if (group_lane() == 0) arms[index] = arm;
        }
        __syncwarp();
    }
}

#define BOUNDS __launch_bounds__(WARPS* WARP, LEAST_BLOCKS)

extern "C" __global__ void BOUNDS choose(i64 n, const double* rules, double* memos, double* banks, const i64* scopes,
                                         const double* features, const i64* offsets, i64* arms) {
    work<false, true>(n, rules, memos, banks, scopes, 0, 0, features, offsets, 0, arms);
}

extern "C" __global__ void BOUNDS learn(i64 n, const double* rules, double* memos, double* banks, const i64* scopes,
                                        const double* played, const double* rewards, i64* status) {
    work<true, false>(n, rules, memos, banks, scopes, played, rewards, 0, 0, status, 0);
}

extern "C" __global__ void BOUNDS step(i64 n, const double* rules, double* memos, double* banks, const i64* scopes,
                                       const double* played, const double* rewards, const double* features,
                                       const i64* offsets, i64* status, i64* arms) {
    work<true, true>(n, rules, memos, banks, scopes, played, rewards, features, offsets, status, arms);
}
