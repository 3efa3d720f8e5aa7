// dLinUCB with ridge members for many scopes, a group of lanes for each: `kernels.windows`, with the same names.
//
// Members pass through shared memory one after the other; a member whose interval contains the reward learns it. Where
// a member is lost or none is fine, the answer is REVIEW, and the coordinator must retire or spawn members before the
// scope goes on.
//
// Macros: those of ridge.cuh, ROOM (members that a scope has room for), WINDOW, WARPS of a block, LEAST_BLOCKS.

// Slots of a ledger row and of the rules; kernels.windows.
enum { ID, SPAWNED_AT, AGE, MISSES, UPDATES, RING };
enum { EPSILON, DELTA, SPAWN_DELTA, SPREAD, EXTRA, FIRST_WIDTH, OPTIMISM, STRICT };

constexpr int ENTRY = RING + WINDOW;
constexpr int REVIEW = 1;

constexpr int PLAYED = ROW, PRODUCT = PLAYED + EVEN, POOL = PRODUCT + EVEN;
constexpr int SHARED = (POOL + CHUNK * DIM + 2 + 13) / 16 * 16 + 2;

// How a member stands after a round.
struct Standing {
    bool fine, lost;
    double bound;  // lower confidence bound of its miss rate; the member with the lowest leads
};

// Push one bit into a member's ring and judge its miss rate.
__device__ Standing record(i64* entry, const double* rules, bool missed) {
    i64* slot = entry + RING + entry[AGE] % WINDOW;
    if (!missed) entry[UPDATES] += 1;
    entry[MISSES] += (i64)missed - *slot;
    *slot = missed;
    entry[AGE] += 1;
    const double filled = entry[AGE] < WINDOW ? (double)entry[AGE] : (double)WINDOW;
    const double rate = (double)entry[MISSES] / (filled + rules[EXTRA]), width = sqrt(rules[SPREAD] / filled);
    const double spawn = rules[SPAWN_DELTA] + width, retire = rules[DELTA] + width;
    const bool fine = rules[STRICT] != 0.0 ? rate <= spawn : rate < spawn;
    const bool lost = rules[STRICT] != 0.0 ? rate > retire : rate >= retire;
    return {fine, !fine && lost, rate - rules[OPTIMISM] * width};
}

// Show a reward to every member: 0, REVIEW, or -1 if it is not usable. Only arms and rewards decide whether it is, so
// that the first member finds out for all.
__device__ int judge_round(const double* test, const double* rules, Stored* bank, i64* ledger, int count, i64* leader,
                           double* shared, const double* x, double reward, bool active) {
    double* z = shared + PRODUCT;
    bool any_fine = false, any_lost = false, refused = false;
    double lowest = LARGEST_FLOAT;
    int best = 0;
    for (int m = 0; __any_sync(EVERYONE, active && m < count); m++) {
        const bool judged = active && m < count && !refused;
        if (judged) start_row(shared, bank + m * ROW);
        send();
        arrived<0>();
        __syncwarp();
        const Projection arm = project(shared, x, z, judged);
        const bool takes = judged && usable(test, arm, reward);
        refused = refused || (judged && !takes);
        bool missed = false;
        if (takes) {
            const double width = radius(test, shared[COUNT]) * sqrt(arm.square > 0.0 ? arm.square : 0.0);
            missed = fabs(arm.mean - reward) > width + rules[EPSILON];
        }
        __syncwarp();
        if (takes && !missed) absorb(shared, z, arm, reward);
        __syncwarp();
        if (takes && !missed) write_row(bank + m * ROW, shared);
        if (takes && group_lane() == 0) {
            const Standing standing = record(ledger + m * ENTRY, rules, missed);
            any_fine = any_fine || standing.fine;
            any_lost = any_lost || standing.lost;
            if (standing.bound < lowest) lowest = standing.bound, best = m;
        }
        __syncwarp();
    }
    any_fine = group_any(any_fine);
    any_lost = group_any(any_lost);
    if (!active || refused) return -1;
    if (any_lost || !any_fine) return REVIEW;
    if (group_lane() == 0) *leader = best;
    return 0;
}

template <bool LEARN, bool CHOOSE>
__device__ __forceinline__ void work(i64 n, const double* act, const double* test, const double* rules, Stored* banks,
                                     i64* ledgers, const i64* counts, i64* leaders, const i64* scopes,
                                     const double* played, const double* rewards, const double* features,
                                     const i64* offsets, i64* status, i64* arms) {
    SHARED_MEMORY(memory);
    const int warp = threadIdx.x / WARP, place = group_of_lane() < SCOPES ? group_of_lane() : 0;
    double* shared = memory + (i64)(warp * SCOPES + place) * SHARED;
    const i64 step = (i64)gridDim.x * WARPS * SCOPES;
    for (i64 first = ((i64)blockIdx.x * WARPS + warp) * SCOPES; first < n; first += step) {
        const i64 index = first + place;
        const bool active = index < n && group_of_lane() < SCOPES;
        const i64 scope = active ? scopes[index] : 0;
        Stored* bank = banks + scope * (ROOM * ROW);
        const double* x = 0;
        Pool pool = {0, 0, 0};
        if (active && LEARN) x = start_numbers(shared + PLAYED, played + index * DIM, DIM);
        if (active && CHOOSE) {
            pool.count = (int)(offsets[index + 1] - offsets[index]);
            pool.arms = features + offsets[index] * DIM;
            pool.here = start_chunk(shared + POOL, pool.arms, 0, pool.count);
        }
        bool review = false;
        if (LEARN) {
            const int count = active ? (int)counts[scope] : 0;
            const double reward = active ? rewards[index] : 0.0;
            i64* ledger = ledgers + scope * (ROOM * ENTRY);
            const int found =
                judge_round(test, rules, bank, ledger, count, leaders + scope, shared, x, reward, active);
            review = found == REVIEW;
            if (active && group_lane() == 0) status[index] = found;
            __syncwarp();
        }
        if (CHOOSE) {
            if (review) pool.count = 0;
            if (active) start_row(shared, bank + leaders[scope] * ROW);
            send();
            arrived<0>();
            __syncwarp();
            const int arm = optimistic_arm(act, shared, shared + POOL, pool);
            if (active && group_lane() == 0) arms[index] = arm;
        }
        __syncwarp();
    }
}

#define BOUNDS __launch_bounds__(WARPS* WARP, LEAST_BLOCKS)

extern "C" __global__ void BOUNDS choose(i64 n, const double* act, const double* test, const double* rules,
                                         Stored* banks, i64* ledgers, const i64* counts, i64* leaders,
                                         const i64* scopes, const double* features, const i64* offsets, i64* arms) {
    work<false, true>(n, act, test, rules, banks, ledgers, counts, leaders, scopes, 0, 0, features, offsets, 0, arms);
}

extern "C" __global__ void BOUNDS learn(i64 n, const double* act, const double* test, const double* rules,
                                        Stored* banks, i64* ledgers, const i64* counts, i64* leaders, const i64* scopes,
                                        const double* played, const double* rewards, i64* status) {
    work<true, false>(n, act, test, rules, banks, ledgers, counts, leaders, scopes, played, rewards, 0, 0, status, 0);
}

extern "C" __global__ void BOUNDS step(i64 n, const double* act, const double* test, const double* rules, Stored* banks,
                                       i64* ledgers, const i64* counts, i64* leaders, const i64* scopes,
                                       const double* played, const double* rewards, const double* features,
                                       const i64* offsets, i64* status, i64* arms) {
    work<true, true>(n, act, test, rules, banks, ledgers, counts, leaders, scopes, played, rewards, features, offsets,
                     status, arms);
}
