// What DriftUCB keeps for a scope, and the single numbers that follow from it: `scales`, `mixture` and
// `ladder.evidence` of `kernels.driftucb`, with the same names. One lane alone calls what writes single numbers; all
// lanes together write rows.
//
// Macros: DIM, EXPERTS, CHUNK (arms of a pool in shared memory, at most 32).

// Slots of memo; kernels.driftucb.scales.
enum {
    ROUNDS, REWARD_SQUARES, FEATURE_SQUARES, FIRST_SQUARE, RECENT_SUM, RECENT_COUNT, STEADY_SUM, STEADY_COUNT, ALL_SUM,
    ALL_COUNT, ELDER_ERRORS, ALARMS, HITS, HIT_VALUE, MISFITS, EXPERTS_LIVE, PICK_COUNT, PICK_SHARES, NOISE, TASTE,
    PRIOR, SHRINK, ALARM_EVIDENCE, ALARM_THRESHOLD, ALARM_AGE, COLUMNS, TRIED, ANCHORED, SPREAD, MEMO
};
// Slots of rules; kernels.driftucb.drift.
enum { EXPLORE, EXPLORE_MOST, DELTA, SHARE, DETECT, MIX, KEEP };
// Numbers of a rung behind its model; kernels.driftucb.ladder: evidence, and before them young's scale, 0 as there is a
// triangle.
// LATE is 0 too, as nothing waits.
enum { SCALE, THEIRS, OWN, LOG_WIDTH, LARGEST_GAIN, NU, NOISE_SUM, LEAD, LATE, SUMS };

constexpr int ACTING = 1 + EXPERTS;  // models that act: incumbent and experts
constexpr int FIRST_RUNG = 2 + EXPERTS, RUNGS = 10, MODELS = FIRST_RUNG + RUNGS;
constexpr int MOST = DIM + 1;  // columns with an intercept
constexpr int RUNG_SIZE = 1 + MOST + MOST * (MOST + 1) / 2 + SUMS;
constexpr int RUNG = (RUNG_SIZE + 1) / 2 * 2;
constexpr int VECTORS = MEMO + ACTING;
constexpr int MEMO_SIZE = VECTORS + 3 * MOST;
constexpr int MEMO_ROOM = (MEMO_SIZE + 1) / 2 * 2;
constexpr int EVEN = (MOST + 2) / 2 * 2;

// In shared memory, of one warp.
constexpr int AT_X = MEMO_ROOM, AT_Z = AT_X + EVEN, AT_OLD = AT_Z + EVEN, AT_ELDER = AT_OLD + EVEN;
constexpr int AT_ERRORS = AT_ELDER + EVEN, AT_VARIANCES = AT_ERRORS + MODELS, AT_COUNTS = AT_VARIANCES + MODELS;
constexpr int AT_SUMS = AT_COUNTS + MODELS, AT_SCRATCH = AT_SUMS + RUNGS * SUMS;
constexpr int AT_ROWS = (AT_SCRATCH + 8 + 1) / 2 * 2, AT_POOL = AT_ROWS + 2 * RUNG;
constexpr int SHARED = (AT_POOL + CHUNK * DIM + 2 + 1) / 2 * 2;

constexpr double SMALLEST = 1e-200, FIRST_RIDGE = 0.02, LARGEST = LARGEST_SQUARE * FIRST_RIDGE;
constexpr double NOTHING = 1e-150, WILDEST = 100.0, RECENT = 0.98, JUMP = 2.0, JUMP_COUNT = 10.0, AFTER_JUMP = 5.0;
constexpr double WILD = 20.0, FLOOR_AT_FIRST = 0.05, ROUNDING = 1e-12, CLICK_NOISE = 0.75, LEAST_PRIOR = 0.2;
constexpr double CLICK_LEAST_PRIOR = 0.5, CLICK_MISFITS = 0.02;
constexpr int SMALL = 32, SHOWN = 8;
constexpr double LIGHT = 1e-3, PICKS = 0.98, SLACK = 1.25, CLICK_EXPLORE = 0.8, FREEDOM = 5.0, CLICK_FREEDOM = 50.0;
constexpr double LEAST_CHANCE = 0.2, FADE = 2000.0, CLICK_SHARE = 0.3, LARGEST_LOG = 700.0;
constexpr double EXPERT_SPREAD = 0.3, CANCELLED = 1e-12, BELIEVES = 64.0, TRIAL = 256.0;
constexpr double WITHOUT_BEST = 3.0, ERROR_CAP = 200.0, CLICK_BIRTHS = 100.0, CLICK_TELLING = 4.0, TELLING = 20.0;
constexpr double MATERIAL = 1e-4, LEAST_RIDGE = 1e-6, MOST_NU = 8.0, CLICK_MOST_NU = 50.0;

__device__ __forceinline__ double larger(double a, double b) { return b > a ? b : a; }
__device__ __forceinline__ double smaller(double a, double b) { return b < a ? b : a; }

// kernels.driftucb.scales ---------------------------------------------------------------------------------------------

__device__ __forceinline__ bool are_clicks(const double* memo) {
    return memo[HITS] > 0.0 && memo[MISFITS] <= CLICK_MISFITS * memo[HITS];
}

__device__ double click_rate(const double* memo) {
    const double rate = (memo[HITS] + 1.0) / (memo[ROUNDS] + 2.0);
    return smaller(rate, 1.0 - rate);
}

__device__ double tame(const double* memo, double surplus) {
    if (fabs(surplus) < NOTHING) return 0.0;
    if (memo[HITS] > 0.0) {
        const double most = WILDEST * sqrt(memo[REWARD_SQUARES] / memo[HITS]);
        return smaller(larger(surplus, -most), most);
    }
    return surplus;
}

__device__ void tally(double* memo, double reward, double surplus, double size) {
    memo[ROUNDS] += 1.0;
    memo[REWARD_SQUARES] += surplus * surplus;
    memo[FEATURE_SQUARES] += size;
    if (reward != 0.0) {
        if (memo[HITS] == 0.0) {
            memo[HIT_VALUE] = reward;
        } else if (reward != memo[HIT_VALUE]) {
            memo[MISFITS] += 1.0;
        }
        memo[HITS] += 1.0;
    }
}

__device__ void learn_noise(double* memo, const double* errors, const double* variances) {
    const double* weights = memo + MEMO;
    const double noise = memo[NOISE];
    double worth = 0.0, total = 0.0;
    for (int m = 0; m < ACTING; m++) {
        if (weights[m] > 0.0) {
            const double share = noise / variances[m];
            worth += weights[m] * share;
            total += weights[m] * (share * errors[m]) * (share * errors[m]);
        }
    }
    total = smaller(total, WILD * worth * noise);
    memo[RECENT_SUM] = RECENT * memo[RECENT_SUM] + total;
    memo[RECENT_COUNT] = RECENT * memo[RECENT_COUNT] + worth;
    memo[STEADY_SUM] += total;
    memo[STEADY_COUNT] += worth;
    memo[ALL_SUM] += total;
    memo[ALL_COUNT] += worth;
    if (memo[RECENT_COUNT] > JUMP_COUNT && memo[RECENT_SUM] > 0.0) {
        const double recent = memo[RECENT_SUM] / memo[RECENT_COUNT], steady = memo[STEADY_SUM] / memo[STEADY_COUNT];
        if (recent > JUMP * steady || recent < steady / JUMP) {
            memo[STEADY_COUNT] = AFTER_JUMP;
            memo[STEADY_SUM] = AFTER_JUMP * recent;
        }
    }
}

__device__ void take_over_noise(double* memo, double noise, double worth) {
    if (are_clicks(memo)) return;
    memo[RECENT_COUNT] = smaller(memo[RECENT_COUNT], worth);
    memo[RECENT_SUM] = memo[RECENT_COUNT] * noise;
    memo[STEADY_COUNT] = smaller(memo[STEADY_COUNT], memo[RECENT_COUNT]);
    memo[STEADY_SUM] = memo[STEADY_COUNT] * noise;
}

// `length` is the mean square of the elder's weights in the frame's units.
__device__ void rescale(double* memo, double length) {
    if (memo[REWARD_SQUARES] == 0.0) return;
    const double rounds = memo[ROUNDS], mean_square = memo[REWARD_SQUARES] / rounds;
    const double overall = memo[ALL_SUM] / memo[ALL_COUNT];
    const bool clicks = are_clicks(memo);
    double noise = memo[STEADY_SUM] / memo[STEADY_COUNT];
    if (clicks) {
        const double rate = (memo[HITS] + 1.0) / (rounds + 2.0);
        noise = larger(overall, CLICK_NOISE * rate * (1.0 - rate) * memo[HIT_VALUE] * memo[HIT_VALUE]);
    }
    if (memo[RECENT_COUNT] < 1.0) noise = larger(noise, FLOOR_AT_FIRST * mean_square);
    memo[NOISE] = larger(noise, ROUNDING * mean_square);
    memo[TASTE] = memo[SPREAD] > 0.0 ? memo[SPREAD] : memo[REWARD_SQUARES] / memo[FEATURE_SQUARES];
    const double spread = larger(memo[ELDER_ERRORS] / rounds - overall, 0.0) * rounds / memo[FEATURE_SQUARES];
    const double least = clicks ? CLICK_LEAST_PRIOR : LEAST_PRIOR;
    memo[PRIOR] = smaller(larger(spread, least * memo[TASTE]), memo[TASTE]);
    const double tastes = sqrt(memo[ALARMS] + 1.0);
    memo[SHRINK] = length > 0.0 ? larger(0.0, 1.0 - spread / (tastes * length)) : 0.0;
}

// kernels.driftucb.mixture --------------------------------------------------------------------------------------------

__device__ void remember_pick(double* memo, const double* variances, double total) {
    if (memo[REWARD_SQUARES] == 0.0 || total == 0.0) return;
    double variance = 0.0;
    for (int m = 0; m < ACTING; m++) {
        if (memo[MEMO + m] > 0.0) variance += memo[MEMO + m] * larger(variances[m] - memo[NOISE], 0.0);
    }
    memo[PICK_SHARES] = PICKS * memo[PICK_SHARES] + variance / total;
    memo[PICK_COUNT] = PICKS * memo[PICK_COUNT] + 1.0;
}

__device__ double log_likelihood(double error, double variance, double log_variance, double nu) {
    return -0.5 * (log_variance + (nu + 1.0) * log(1.0 + error * error / (nu * variance)));
}

__device__ double click_log_likelihood(const double* memo, double reward, double mean) {
    const double least = LEAST_CHANCE * click_rate(memo);
    const double chance = smaller(larger(mean / memo[HIT_VALUE], least), 1.0 - least);
    return log(reward != 0.0 ? chance : 1.0 - chance);
}

__device__ __forceinline__ double fair(int model) { return model == 0 ? 0.5 : 0.5 / (ACTING - 1); }

__device__ void inherit(double* weights, double lead) {
    double rest = 0.0;
    for (int m = 1; m < ACTING; m++) rest += weights[m];
    if (rest > 0.0) {
        lead = smaller(larger(lead, -LARGEST_LOG), LARGEST_LOG);
        const double heir = weights[0] / (weights[0] + rest * exp(-lead));
        for (int m = 1; m < ACTING; m++) weights[m] *= (1.0 - heir) / rest;
        weights[0] = heir;
    }
}

// kernels.driftucb.ladder.evidence ------------------------------------------------------------------------------------

__device__ double log_evidence(const double* sums, double count, double left_out) {
    const double nu = sums[NU], ratio = (nu + sums[THEIRS] - left_out) / (nu + sums[OWN]);
    if (0.5 * ((nu + count) * (ratio - 1.0) - sums[LOG_WIDTH]) <= WITHOUT_BEST) return WITHOUT_BEST;
    return 0.5 * ((nu + count) * log(ratio) - sums[LOG_WIDTH]);
}

__device__ double threshold_of(const double* memo, double age, double delta) {
    if (!are_clicks(memo)) return log((age + 2.0) / delta);
    return log((age * smaller(1.0, click_rate(memo) / CLICK_TELLING) + CLICK_BIRTHS) / delta);
}

__device__ bool holds(const double* memo, double theirs, double count, int columns) {
    const double wrong = theirs * memo[NOISE] / count;
    const double rarer = smaller(memo[HITS], memo[ROUNDS] - memo[HITS]);
    const bool clicks = are_clicks(memo);
    const bool ready = memo[ALL_COUNT] >= 2.0 * columns && (!clicks || rarer >= 2.0 * columns);
    return ready && (clicks || wrong > MATERIAL * memo[REWARD_SQUARES] / memo[ROUNDS]);
}

// The rung that is born after this round, -1 if none; `birth` says whether it could tell a shift from noise.
__device__ int rung_due(const double* memo, bool& birth) {
    const bool clicks = are_clicks(memo);
    const int lowest = clicks ? (int)larger(ceil(log2(CLICK_TELLING / click_rate(memo))), 0.0) : 0;
    i64 born = (i64)memo[ROUNDS];
    int rung = 0;
    while (born % 2 == 0 && rung < lowest + RUNGS - 1) born /= 2, rung++;
    birth = true;
    if (rung < lowest) return -1;
    rung %= RUNGS;
    birth = clicks || !((double)(1 << rung) * memo[PRIOR] * memo[FIRST_SQUARE] < TELLING * memo[NOISE]);
    return rung;
}

// Rows in device memory -----------------------------------------------------------------------------------------------

// Write a model whose weights are `shrink` * mean, uncertain by `scale` * units^2; without a mean, weights are 0.
__device__ void write_model(double* row, int columns, double count, const double* mean, double shrink, double scale,
                            const double* units) {
    for (int i = group_lane(); i < RUNG; i += GROUP) row[i] = 0.0;
    __syncwarp();
    if (group_lane() == 0) row[0] = count;
    for (int i = group_lane(); i < columns; i += GROUP) {
        if (mean) row[1 + i] = shrink * mean[i];
        row[1 + columns + i * (i + 1) / 2 + i] = scale * units[i] * units[i];
    }
    __syncwarp();
}

__device__ void clear_rung(double* row) {
    for (int i = group_lane(); i < RUNG; i += GROUP) row[i] = i == 0 ? -1.0 : 0.0;
}

__device__ void clear_rungs(double* bank) {
    for (int k = 0; k < RUNGS; k++) clear_rung(bank + (FIRST_RUNG + k) * RUNG);
    __syncwarp();
}

__device__ void begin(double* memo, double* bank, int columns, const double* units, double size) {
    if (group_lane() == 0) {
        for (int i = 0; i < COLUMNS; i++) memo[i] = 0.0;
        for (int m = 0; m < ACTING; m++) memo[MEMO + m] = m == 0;
        memo[NOISE] = 1.0;
        memo[FIRST_SQUARE] = size;
    }
    for (int m = 0; m < FIRST_RUNG; m++) {
        const double ridge = m == 0 ? size : FIRST_RIDGE * size;
        write_model(bank + m * RUNG, columns, 0.0, 0, 0.0, m < 2 ? 1.0 / ridge : 0.0, units);
    }
    clear_rungs(bank);
    __threadfence();
}
