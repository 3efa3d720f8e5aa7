// LinUCB for many scopes: each group of lanes learns the last reward of its scope and chooses its next arm.
//
// A row in device memory is [lower triangle of A^-1, theta, n], filled up to an even number of numbers. While a group
// works on a scope, the row, the features of the arm that was played and those of up to CHUNK arms of the pool lie in
// shared memory. To choose, every lane has an arm of its own, whose features it keeps in registers, and reads A^-1 once.
//
// Macros: DIM, GROUP, CHUNK (arms of a pool in shared memory), WARPS of a block, STAGES (2: load the
// next scopes while computing), LEAST_BLOCKS (blocks that a multiprocessor must have room for).

constexpr int TRIANGLE = DIM * (DIM + 1) / 2;
constexpr int THETA = TRIANGLE;
constexpr int COUNT = TRIANGLE + DIM;
constexpr int ROW = (COUNT + 2) / 2 * 2;
constexpr int EVEN = (DIM + 2) / 2 * 2;  // room for a vector that may start at an odd place
constexpr bool IN_REGISTERS = DIM <= 32;

// Of one scope in shared memory; the step from scope to scope spreads them over the banks.
constexpr int PLAYED = ROW, PRODUCT = PLAYED + EVEN, POOL = PRODUCT + EVEN;
constexpr int SHARED = (POOL + CHUNK * DIM + 2 + 13) / 16 * 16 + 2;

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

// Learn a reward; all lanes of the group say whether it was usable.
__device__ __forceinline__ bool learn_row(const double* settings, double* row, const double* x, double* z, double reward,
                                          bool active) {
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
    const bool usable = active && is_finite(mean) && is_finite(square) && is_finite(reward) && size <= LARGEST_SQUARE * settings[0];
    if (usable) {
        const double share = 1.0 / (1.0 + square), step = (reward - mean) * share;
        for (int i = group_lane(); i < DIM; i += GROUP) {
            const double mine = z[i], factor = share * mine;
            row[THETA + i] += step * mine;
            double* line = row + i * (i + 1) / 2;
#pragma unroll 4
            for (int j = 0; j <= i; j++) line[j] -= factor * z[j];
        }
        if (group_lane() == 0) row[COUNT] += 1.0;
    }
    __syncwarp();
    return usable;
}

// What a group is to do next, and where the numbers for it are on their way to.
struct Task {
    i64 index;
    double* state;
    const double *played, *pool, *arms;  // the last in device memory
    int count;
};

template <bool LEARN, bool CHOOSE>
__device__ __forceinline__ Task start_task(i64 index, i64 n, double* shared, double* rows, const i64* scopes,
                                           const double* played, const double* features, const i64* offsets) {
    Task task = {-1, 0, 0, 0, 0, 0};
    if (index < n && group_of_lane() < SCOPES) {
        task.index = index;
        task.state = rows + scopes[index] * ROW;
        start_pairs(shared, task.state, ROW);
        if (LEARN) task.played = start_numbers(shared + PLAYED, played + index * DIM, DIM);
        if (CHOOSE) {
            task.count = (int)(offsets[index + 1] - offsets[index]);
            task.arms = features + offsets[index] * DIM;
            task.pool = start_numbers(shared + POOL, task.arms, (task.count < CHUNK ? task.count : CHUNK) * DIM);
        }
    }
    send();
    return task;
}

// Index of the arm with the highest mean + radius * sqrt(x' A^-1 x), the lowest on a tie; -1 if not usable.
__device__ __forceinline__ int best_arm(const double* settings, double* shared, Task task) {
    const double* row = shared;
    const double explore = task.index < 0 ? 0.0 : radius(settings, row[COUNT]);
    const double largest = LARGEST_SQUARE * settings[0];
    double best = -LARGEST_FLOAT;
    int pick = NONE;
    bool wrong = false;
    for (int first = 0; __any_sync(EVERYONE, first < task.count); first += CHUNK) {
        const int last = first + CHUNK < task.count ? first + CHUNK : task.count;
        if (first > 0) {
            __syncwarp();
            if (first < last) task.pool = start_numbers(shared + POOL, task.arms + (i64)first * DIM, (last - first) * DIM);
            send();
            arrived<0>();
            __syncwarp();
        }
        for (int k = first + group_lane(); k < last; k += GROUP) {
            double mean, size, square;
            READ_AGAIN;
            judge(row, task.pool + (k - first) * DIM, mean, size, square);
            const double score = mean + explore * sqrt(square);
            wrong = wrong || !is_finite(score) || !(size <= largest);
            if (score > best) {
                if (pick == NONE || best < score - TIE) pick = k;
                best = score;
            }
        }
    }
    const double highest = group_max(best);
    wrong = group_any(wrong);
    const int arm = group_min(best >= highest - TIE ? pick : NONE);
    return wrong || arm == NONE ? -1 : arm;
}

template <bool LEARN, bool CHOOSE>
__device__ __forceinline__ void work(i64 n, double* rows, const double* act, const double* test, const i64* scopes,
                                     const double* played, const double* rewards, const double* features,
                                     const i64* offsets, i64* status, i64* arms) {
    SHARED_MEMORY(memory);
    const int warp = threadIdx.x / WARP, place = group_of_lane() < SCOPES ? group_of_lane() : 0;
    double* mine = memory + (i64)(warp * SCOPES + place) * STAGES * SHARED;
    const i64 step = (i64)gridDim.x * WARPS * SCOPES;
    i64 first = ((i64)blockIdx.x * WARPS + warp) * SCOPES;
    int stage = 0;
    Task next;
    if (STAGES == 2) next = start_task<LEARN, CHOOSE>(first + place, n, mine, rows, scopes, played, features, offsets);
    for (; first < n; first += step) {
        double* shared = mine + stage * SHARED;
        Task task;
        if (STAGES == 2) {
            task = next;
            stage = 1 - stage;
            next = start_task<LEARN, CHOOSE>(first + step + place, n, mine + stage * SHARED, rows, scopes, played,
                                             features, offsets);
            arrived<1>();
        } else {
            task = start_task<LEARN, CHOOSE>(first + place, n, shared, rows, scopes, played, features, offsets);
            arrived<0>();
        }
        __syncwarp();
        const bool active = task.index >= 0;
        if (LEARN) {
            const double reward = active ? rewards[task.index] : 0.0;
            const bool learned = learn_row(test, shared, task.played, shared + PRODUCT, reward, active);
            if (active && group_lane() == 0) status[task.index] = learned ? 0 : -1;
            if (active && learned) {
                for (int i = 2 * group_lane(); i < ROW; i += 2 * GROUP)
                    *(double2*)(task.state + i) = *(const double2*)(shared + i);
            }
        }
        if (CHOOSE) {
            const int arm = best_arm(act, shared, task);
            if (active && group_lane() == 0) arms[task.index] = arm;
        }
        __syncwarp();
    }
}

#define BOUNDS __launch_bounds__(WARPS* WARP, LEAST_BLOCKS)

extern "C" __global__ void BOUNDS choose(i64 n, const double* act, const double* test, double* rows, const i64* scopes,
                                         const double* features, const i64* offsets, i64* arms) {
    work<false, true>(n, rows, act, test, scopes, 0, 0, features, offsets, 0, arms);
}

extern "C" __global__ void BOUNDS learn(i64 n, const double* act, const double* test, double* rows, const i64* scopes,
                                        const double* played, const double* rewards, i64* status) {
    work<true, false>(n, rows, act, test, scopes, played, rewards, 0, 0, status, 0);
}

extern "C" __global__ void BOUNDS step(i64 n, const double* act, const double* test, double* rows, const i64* scopes,
                                       const double* played, const double* rewards, const double* features,
                                       const i64* offsets, i64* status, i64* arms) {
    work<true, true>(n, rows, act, test, scopes, played, rewards, features, offsets, status, arms);
}
