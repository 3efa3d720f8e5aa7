// LinUCB and LinTS for many scopes: each group of lanes learns the last reward of its scope and chooses its next arm.
//
// While a group works on a scope, the row, the features of the arm that was played and the first chunk of the pool lie
// in shared memory.
//
// Macros: those of ridge.cuh, WARPS of a block, STAGES (2: load the next scopes while computing), LEAST_BLOCKS (blocks
// that a multiprocessor must have room for), SAMPLES (1: LinTS), WORDS of a scope's generator.

// Of one scope in shared memory; the step from scope to scope spreads them over the banks.
constexpr int PLAYED = ROW, PRODUCT = PLAYED + EVEN, POOL = PRODUCT + EVEN;
constexpr int SHARED = (POOL + CHUNK * DIM + 2 + 13) / 16 * 16 + 2;

// What a group is to do next, and where the numbers for it are on their way to.
struct Task {
    i64 index;
    i64 scope;
    double reward;
    const double* played;
    Pool pool;
};

template <bool LEARN, bool CHOOSE>
__device__ __forceinline__ Task start_task(i64 index, i64 n, double* shared, const Stored* rows, const i64* scopes,
                                           const double* played, const double* rewards, const double* features,
                                           const i64* offsets) {
    Task task = {-1, 0, 0.0, 0, {0, 0, 0}};
    if (index < n && group_of_lane() < SCOPES) {
        task.index = index;
        task.scope = scopes[index];
        start_row(shared, rows + task.scope * ROW);
        if (LEARN) task.reward = rewards[index];
        if (LEARN) task.played = start_numbers(shared + PLAYED, played + index * DIM, DIM);
        if (CHOOSE) {
            const i64 first = offsets[index];
            task.pool.count = (int)(offsets[index + 1] - first);
            task.pool.arms = features + first * DIM;
            task.pool.here = start_chunk(shared + POOL, task.pool.arms, 0, task.pool.count);
        }
    }
    send();
    return task;
}

template <bool LEARN, bool CHOOSE>
__device__ __forceinline__ void work(i64 n, const double* act, const double* test, Stored* rows, i64* words,
                                     const u64* tables, const i64* scopes, const double* played, const double* rewards,
                                     const double* features, const i64* offsets, i64* status, i64* arms) {
    SHARED_MEMORY(memory);
    const int warp = threadIdx.x / WARP, place = group_of_lane() < SCOPES ? group_of_lane() : 0;
    double* mine = memory + (i64)(warp * SCOPES + place) * STAGES * SHARED;
    const i64 step = (i64)gridDim.x * WARPS * SCOPES;
    i64 first = ((i64)blockIdx.x * WARPS + warp) * SCOPES;
    int stage = 0;
    Task next;
    if (STAGES == 2)
        next = start_task<LEARN, CHOOSE>(first + place, n, mine, rows, scopes, played, rewards, features, offsets);
    for (; first < n; first += step) {
        double* shared = mine + stage * SHARED;
        Task task;
        if (STAGES == 2) {
            task = next;
            stage = 1 - stage;
            next = start_task<LEARN, CHOOSE>(first + step + place, n, mine + stage * SHARED, rows, scopes, played,
                                             rewards, features, offsets);
            arrived<1>();
        } else {
            task = start_task<LEARN, CHOOSE>(first + place, n, shared, rows, scopes, played, rewards, features,
                                             offsets);
            arrived<0>();
        }
        __syncwarp();
        const bool active = task.index >= 0;
        if (LEARN) {
            const Projection arm = project(shared, task.played, shared + PRODUCT, active);
            const bool learns = active && usable(test, arm, task.reward);
            if (learns) absorb(shared, shared + PRODUCT, arm, task.reward);
            __syncwarp();
            if (learns) write_row(rows + task.scope * ROW, shared);
            if (active && group_lane() == 0) status[task.index] = learns ? 0 : -1;
        }
        if (CHOOSE) {
#if SAMPLES
            if (LEARN) __syncwarp();
            const int arm = sampled_arm(test[0], act[4], shared, shared + PRODUCT, shared + POOL, task.pool,
                                        words + task.scope * WORDS, tables);
#else
            const int arm = optimistic_arm(act, shared, shared + POOL, task.pool);
#endif
            if (active && group_lane() == 0) arms[task.index] = arm;
        }
        __syncwarp();
    }
}

#define BOUNDS __launch_bounds__(WARPS* WARP, LEAST_BLOCKS)

extern "C" __global__ void BOUNDS choose(i64 n, const double* act, const double* test, Stored* rows, i64* words,
                                         const u64* tables, const i64* scopes, const double* features,
                                         const i64* offsets, i64* arms) {
    work<false, true>(n, act, test, rows, words, tables, scopes, 0, 0, features, offsets, 0, arms);
}

extern "C" __global__ void BOUNDS learn(i64 n, const double* act, const double* test, Stored* rows, i64* words,
                                        const u64* tables, const i64* scopes, const double* played,
                                        const double* rewards, i64* status) {
    work<true, false>(n, act, test, rows, words, tables, scopes, played, rewards, 0, 0, status, 0);
}

extern "C" __global__ void BOUNDS step(i64 n, const double* act, const double* test, Stored* rows, i64* words,
                                       const u64* tables, const i64* scopes, const double* played,
                                       const double* rewards, const double* features, const i64* offsets, i64* status,
                                       i64* arms) {
    work<true, true>(n, act, test, rows, words, tables, scopes, played, rewards, features, offsets, status, arms);
}
