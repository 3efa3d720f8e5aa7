// Ridge regression on rows in shared memory, a group of lanes for each; `kernels.ridge`.
//
// A row is [lower triangle of A^-1, theta, n], filled up to a multiple of 16 bytes in device memory. To choose,
// every lane has an arm of its own, whose features it keeps in registers, and reads A^-1 once.
//
// Macros: DIM, GROUP, CHUNK (arms of a pool in shared memory), SINGLE (1: rows are stored in float32).

constexpr int TRIANGLE = DIM * (DIM + 1) / 2;
constexpr int THETA = TRIANGLE;
constexpr int COUNT = TRIANGLE + DIM;
#if SINGLE
typedef float Stored;
constexpr int ROW = (COUNT + 4) / 4 * 4;
#else
typedef double Stored;
constexpr int ROW = (COUNT + 2) / 2 * 2;
#endif
constexpr int EVEN = (DIM + 2) / 2 * 2;  // room for a vector that may start at an odd place
constexpr bool IN_REGISTERS = DIM <= 32;

// Settings: ridge, scale, growth, constant, offset of the confidence radius.
__device__ __forceinline__ double radius(const double* settings, double n) {
    if (settings[1] == 0.0) return settings[4];
    return settings[1] * sqrt(DIM * log(1.0 + settings[2] * n) + settings[3]) + settings[4];
}

// x' A^-1 x, never below zero; NaN stays NaN.
__device__ __forceinline__ double square_of(const double* row, const double* x) {
    double total = 0.0;
    if (IN_REGISTERS) {
        const double2* pairs = (const double2*)row;
        double2 pair = pairs[0];
#pragma unroll
        for (int i = 0; i < DIM; i++) {
            double half = 0.0;
#pragma unroll
            for (int j = 0; j < i; j++) {
                const int at = i * (i + 1) / 2 + j;
                if (at % 2 == 0) pair = pairs[at / 2];
                half += (at % 2 == 0 ? pair.x : pair.y) * x[j];
            }
            const int at = i * (i + 1) / 2 + i;
            if (at % 2 == 0) pair = pairs[at / 2];
            half += 0.5 * (at % 2 == 0 ? pair.x : pair.y) * x[i];
            total += half * x[i];
        }
    } else {
        for (int i = 0; i < DIM; i++) {
            const double* line = row + i * (i + 1) / 2;
            double half = 0.5 * line[i] * x[i];
            for (int j = 0; j < i; j++) half += line[j] * x[j];
            total += half * x[i];
        }
    }
    total *= 2.0;
    return total < 0.0 ? 0.0 : total;
}

// Mean reward, |x|^2 and x' A^-1 x of the arm of one lane.
__device__ __forceinline__ void judge(const double* row, const double* x, double& mean, double& size, double& square) {
    mean = size = 0.0;
    if (IN_REGISTERS) {
        double mine[DIM];
#pragma unroll
        for (int i = 0; i < DIM; i++) {
            mine[i] = x[i];
            mean += mine[i] * row[THETA + i];
            size += mine[i] * mine[i];
        }
        square = square_of(row, mine);
    } else {
        for (int i = 0; i < DIM; i++) {
            mean += x[i] * row[THETA + i];
            size += x[i] * x[i];
        }
        square = square_of(row, x);
    }
}

// Remember the best arm of one lane: the first whose score is within TIE of the highest.
__device__ __forceinline__ void consider(double score, int arm, double& best, int& pick) {
    if (score > best) {
        if (pick == NONE || best < score - TIE) pick = arm;
        best = score;
    }
}

// The first of the lanes' best arms whose score is within TIE of the highest; -1 if there is none.
__device__ __forceinline__ int first_best(double best, int pick) {
    const double highest = group_max(best);
    const int arm = group_min(best >= highest - TIE ? pick : NONE);
    return arm == NONE ? -1 : arm;
}

// Element (i, j) of A^-1 times x_j, summed over j.
__device__ __forceinline__ double times(const double* row, int i, const double* x) {
    double total = 0.0;
    int at = i * (i + 1) / 2;
#pragma unroll 8
    for (int j = 0; j < DIM; j++) {
        total += row[at] * x[j];
        at += j < i ? 1 : j + 1;
    }
    return total;
}

// What an arm's reward is expected to be, x' A^-1 x and |x|^2; A^-1 x is written to z.
struct Projection {
    double mean, square, size;
};

__device__ __forceinline__ Projection project(const double* row, const double* x, double* z, bool active) {
    double mean = 0.0, square = 0.0, size = 0.0;
    for (int i = active ? group_lane() : DIM; i < DIM; i += GROUP) {
        const double total = times(row, i, x);
        z[i] = total;
        mean += row[THETA + i] * x[i];
        square += total * x[i];
        size += x[i] * x[i];
    }
    mean = group_sum(mean);
    square = group_sum(square);
    size = group_sum(size);
    __syncwarp();
    return {mean, square, size};
}

// Whether a reward of this arm can be learned; settings[0] is the ridge.
__device__ __forceinline__ bool usable(const double* settings, Projection arm, double reward) {
    const bool numbers = is_finite(arm.mean) && is_finite(arm.square) && is_finite(reward);
    return numbers && arm.size <= LARGEST_SQUARE * settings[0];
}

// Learn the reward of an arm whose A^-1 x is z.
__device__ __forceinline__ void absorb(double* row, const double* z, Projection arm, double reward) {
    const double share = 1.0 / (1.0 + arm.square), step = (reward - arm.mean) * share;
    for (int i = group_lane(); i < DIM; i += GROUP) {
        const double mine = z[i], factor = share * mine;
        row[THETA + i] += step * mine;
        double* line = row + i * (i + 1) / 2;
#pragma unroll 4
        for (int j = 0; j <= i; j++) line[j] -= factor * z[j];
    }
    if (group_lane() == 0) row[COUNT] += 1.0;
}

// Rows on their way from device memory to shared memory, and back.
#if SINGLE
__device__ __forceinline__ void start_row(double* row, const float* state) {
#pragma unroll 6
    for (int i = 4 * group_lane(); i < ROW; i += 4 * GROUP) {
        const float4 four = *(const float4*)(state + i);
        row[i] = four.x, row[i + 1] = four.y, row[i + 2] = four.z, row[i + 3] = four.w;
    }
}
__device__ __forceinline__ void write_row(float* state, const double* row) {
    for (int i = 4 * group_lane(); i < ROW; i += 4 * GROUP) {
        const float4 four = {(float)row[i], (float)row[i + 1], (float)row[i + 2], (float)row[i + 3]};
        *(float4*)(state + i) = four;
    }
}
#else
__device__ __forceinline__ void start_row(double* row, const double* state) { start_pairs(row, state, ROW); }
__device__ __forceinline__ void write_row(double* state, const double* row) {
    for (int i = 2 * group_lane(); i < ROW; i += 2 * GROUP) *(double2*)(state + i) = *(const double2*)(row + i);
}
#endif

// The next CHUNK arms of a pool, from `first` on, on their way to shared memory; returns where they will lie.
__device__ __forceinline__ const double* start_chunk(double* room, const double* arms, int first, int count) {
    const int left = count - first < CHUNK ? count - first : CHUNK;
    return left > 0 ? start_numbers(room, arms + (i64)first * DIM, left * DIM) : room;
}

// The pool that a group chooses from: its first chunk in shared memory, all of it in device memory.
struct Pool {
    const double *here, *arms;
    int count;
};

// Index of the arm with the highest mean + radius * sqrt(x' A^-1 x), the lowest on a tie; -1 if not usable.
__device__ __forceinline__ int optimistic_arm(const double* settings, const double* row, double* room, Pool pool) {
    const double explore = pool.count > 0 ? radius(settings, row[COUNT]) : 0.0;
    const double largest = LARGEST_SQUARE * settings[0];
    double best = -LARGEST_FLOAT;
    int pick = NONE;
    bool wrong = false;
    for (int first = 0; __any_sync(EVERYONE, first < pool.count); first += CHUNK) {
        if (first > 0) {
            __syncwarp();
            pool.here = start_chunk(room, pool.arms, first, pool.count);
            send();
            arrived<0>();
            __syncwarp();
        }
        const int last = first + CHUNK < pool.count ? first + CHUNK : pool.count;
        for (int k = first + group_lane(); k < last; k += GROUP) {
            double mean, size, square;
            READ_AGAIN;
            judge(row, pool.here + (k - first) * DIM, mean, size, square);
            const double score = mean + explore * sqrt(square);
            wrong = wrong || !is_finite(score) || !(size <= largest);
            consider(score, k, best, pick);
        }
    }
    const int arm = first_best(best, pick);
    return group_any(wrong) ? -1 : arm;
}
