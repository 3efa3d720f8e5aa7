// DriftUCB for many scopes, a warp for each: `kernels.drift` and the files that it names, with the same names.
//
// Vectors and matrices are shared out among lanes, single numbers are left to lane 0; what it finds lies in `memo` in
// shared memory. The models (elder, incumbent, experts, rungs) pass through two buffers one after the other, the next
// one on its way while one learns; what follows from all their errors is computed behind the pass, a lane for each model.
//
// Macros: DIM, EXPERTS, CHUNK (arms of a pool in shared memory, at least 32), WARPS, LEAST_BLOCKS; GROUP is WARP.

// Slots of memo; kernels.scales.
enum {
    ROUNDS, REWARD_SQUARES, FEATURE_SQUARES, FIRST_SQUARE, RECENT_SUM, RECENT_COUNT, STEADY_SUM, STEADY_COUNT, ALL_SUM,
    ALL_COUNT, ELDER_ERRORS, ALARMS, HITS, HIT_VALUE, MISFITS, EXPERTS_LIVE, PICK_COUNT, PICK_SHARES, NOISE, TASTE,
    PRIOR, SHRINK, ALARM_EVIDENCE, ALARM_THRESHOLD, ALARM_AGE, COLUMNS, TRIED, ANCHORED, SPREAD, MEMO
};
// Slots of rules; kernels.drift.
enum { EXPLORE, EXPLORE_MOST, DELTA, SHARE, DETECT, MIX, KEEP };
// Sums of a rung behind its model; kernels.evidence.
enum { THEIRS, OWN, LOG_WIDTH, LARGEST_GAIN, NU, NOISE_SUM, LEAD, SUMS };

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
constexpr double LIGHT = 1e-3, PICKS = 0.98, SLACK = 1.25, CLICK_EXPLORE = 0.8, FREEDOM = 5.0, CLICK_FREEDOM = 50.0;
constexpr double LEAST_CHANCE = 0.2, FADE = 2000.0, CLICK_SHARE = 0.3, LARGEST_LOG = 700.0;
constexpr double EXPERT_SPREAD = 0.3, BELIEVES = 64.0, TRIAL = 256.0;
constexpr double WITHOUT_BEST = 3.0, ERROR_CAP = 200.0, CLICK_BIRTHS = 100.0, CLICK_TELLING = 4.0, TELLING = 20.0;
constexpr double MATERIAL = 1e-4, LEAST_RIDGE = 1e-6, MOST_NU = 8.0, CLICK_MOST_NU = 50.0;

__device__ __forceinline__ double larger(double a, double b) { return b > a ? b : a; }
__device__ __forceinline__ double smaller(double a, double b) { return b < a ? b : a; }

// kernels.scales ------------------------------------------------------------------------------------------------------

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

// kernels.mixture -----------------------------------------------------------------------------------------------------

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

// kernels.evidence ----------------------------------------------------------------------------------------------------

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

// Write an empty model whose weights are `shrink` * mean, uncertain by `scale` * units^2; without a mean, weights are 0.
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

// Learning ------------------------------------------------------------------------------------------------------------

struct Drift {
    double keep, fade, lift, pull;  // theta becomes keep * theta + pull * elder, a covariance P fade * P + lift * units^2
};

// Let one model drift, then learn; the error and its variance, which is `noise` plus that of the arm's mean.
__device__ void learn_model(double* row, int columns, const double* x, double* z, const double* elder,
                            const double* units, Drift drift, double reward, double noise, double& error,
                            double& variance) {
    double* theta = row + 1;
    double* matrix = row + 1 + columns;
    double mean = 0.0, square = 0.0;
    for (int i = group_lane(); i < columns; i += GROUP) {
        double total = 0.0;
        int at = i * (i + 1) / 2;
#pragma unroll 4
        for (int j = 0; j < columns; j++) {
            total += matrix[at] * x[j];
            at += j < i ? 1 : j + 1;
        }
        total = drift.fade * total + drift.lift * units[i] * units[i] * x[i];
        z[i] = total;
        theta[i] = drift.keep * theta[i] + drift.pull * elder[i];
        mean += theta[i] * x[i];
        square += total * x[i];
    }
    mean = group_sum(mean);
    square = group_sum(square);
    __syncwarp();
    error = reward - mean;
    variance = noise + larger(square, 0.0);
    const double share = 1.0 / variance, step = error * share;
    for (int i = group_lane(); i < columns; i += GROUP) {
        const double mine = z[i], factor = share * mine;
        theta[i] += step * mine;
        double* line = matrix + i * (i + 1) / 2;
#pragma unroll 4
        for (int j = 0; j <= i; j++) line[j] = drift.fade * line[j] - factor * z[j];
        line[i] += drift.lift * units[i] * units[i];
    }
    if (group_lane() == 0) row[0] += 1.0;
    __syncwarp();
}

__device__ int learn_scope(const double* rules, double* shared, double* bank, const double* played, double reward) {
    double *memo = shared, *x = shared + AT_X, *z = shared + AT_Z, *old = shared + AT_OLD, *elder = shared + AT_ELDER;
    double *errors = shared + AT_ERRORS, *variances = shared + AT_VARIANCES, *counts = shared + AT_COUNTS;
    double *sums = shared + AT_SUMS, *scratch = shared + AT_SCRATCH, *rows = shared + AT_ROWS;
    double* weights = memo + MEMO;
    const int lane = group_lane(), columns = (int)memo[COLUMNS];
    const double* units = memo + VECTORS + MOST;
    const double* anchor = memo + VECTORS + 2 * MOST;
    const int matrix = 1 + columns, behind = matrix + columns * (columns + 1) / 2;

    for (int i = lane; i < columns; i += GROUP) x[i] = i < DIM ? played[i] : 1.0;
    for (int m = lane; m < MODELS; m += GROUP) counts[m] = bank[m * RUNG];
    __syncwarp();
    double base = 0.0, size = 0.0;
    for (int i = lane; i < columns; i += GROUP) {
        base += memo[ANCHORED] > 0.0 ? x[i] * anchor[i] : 0.0;
        size += x[i] * units[i] * (x[i] * units[i]);
    }
    base = group_sum(base);
    size = group_sum(size);
    if (!is_finite(size) || !is_finite(reward)) return -1;
    if (size < SMALLEST) return 0;
    const double surplus = tame(memo, reward - base);
    const bool told = memo[SPREAD] != 0.0, first = memo[FIRST_SQUARE] == 0.0;
    if (!first && size > LARGEST * memo[FIRST_SQUARE] && !told) return -1;
    __syncwarp();
    if (first && !told) {
        begin(memo, bank, columns, units, size);
        for (int m = lane; m < MODELS; m += GROUP) counts[m] = m < FIRST_RUNG ? 0.0 : -1.0;
    }
    if (lane == 0) {
        if (first || size > LARGEST * memo[FIRST_SQUARE]) memo[FIRST_SQUARE] = size;
        if (memo[REWARD_SQUARES] == 0.0 && surplus != 0.0 && memo[SPREAD] == 0.0) {
            memo[NOISE] = surplus * surplus;
            memo[TASTE] = memo[PRIOR] = surplus * surplus / memo[FIRST_SQUARE];
        }
    }
    __syncwarp();

    // Every model that lives learns the reward.
    const double noise = memo[NOISE];
    const bool clicks = are_clicks(memo), live = memo[EXPERTS_LIVE] > 0.0, detect = rules[DETECT] > 0.0;
    unsigned todo = live ? (1u << FIRST_RUNG) - 1u : 3u;
    for (int k = 0; k < RUNGS; k++) {
        if (detect && counts[FIRST_RUNG + k] >= 0.0) todo |= 1u << (FIRST_RUNG + k);
    }
    const int length = (behind + SUMS + 1) / 2 * 2;
    int now = 0, buffer = 0;
    double total = 0.0;
    start_pairs(rows, bank, length);
    send();
    while (now < MODELS) {
        int next = now + 1;
        while (next < MODELS && !(todo >> next & 1u)) next++;
        if (next < MODELS) start_pairs(rows + (1 - buffer) * RUNG, bank + next * RUNG, length);
        send();
        arrived<1>();
        __syncwarp();
        double* row = rows + buffer * RUNG;
        const bool acts = now >= 1 && now < FIRST_RUNG, expert = now >= 2 && now < FIRST_RUNG;
        Drift drift = {1.0, 1.0, 0.0, 0.0};
        if (expert) {
            const double keep = rules[KEEP + now - 2], fade = keep * keep;
            drift = {keep, fade, (1.0 - fade) * EXPERT_SPREAD * memo[TASTE], (1.0 - keep) * memo[SHRINK]};
        }
        if (acts) {
            double trace = 0.0;
            for (int i = lane; i < columns; i += GROUP) {
                trace += row[matrix + i * (i + 1) / 2 + i] / (units[i] * units[i]);
            }
            total += weights[now - 1] * (now == 1 ? noise : 1.0) * group_sum(trace);
        }
        if (now == 0) {
            for (int i = lane; i < columns; i += GROUP) old[i] = row[1 + i];
            __syncwarp();
        }
        const double target = now >= FIRST_RUNG && clicks ? reward - base : surplus;
        double error, variance;
        learn_model(row, columns, x, z, old, units, drift, target, expert ? noise : 1.0, error, variance);
        if (lane == 0) errors[now] = error, variances[now] = variance, counts[now] = row[0];
        if (now == 0) {
            for (int i = lane; i < columns; i += GROUP) elder[i] = row[1 + i];
        }
        if (now >= FIRST_RUNG) {
            for (int i = lane; i < SUMS; i += GROUP) sums[(now - FIRST_RUNG) * SUMS + i] = row[behind + i];
        }
        double* home = bank + now * RUNG;
        for (int i = 2 * lane; i < behind; i += 2 * GROUP) *(double2*)(home + i) = *(const double2*)(row + i);
        __syncwarp();
        now = next;
        buffer = 1 - buffer;
    }

    // What their errors say about the noise and about who should act.
    const double width = variances[1];  // 1 + x' A^-1 x of the incumbent
    errors += 1, variances += 1;        // from here on, of the models that act
    __syncwarp();
    if (lane == 0) {
        variances[0] = noise * width;
        memo[ELDER_ERRORS] += errors[-1] * errors[-1] / variances[-1];
        remember_pick(memo, variances, total);
        learn_noise(memo, errors, variances);
    }
    __syncwarp();
    const double nu = smaller(larger(memo[RECENT_COUNT], 1.0), clicks ? CLICK_FREEDOM : FREEDOM);
    const int acting_models = live ? ACTING : 1;
    for (int m = lane; m < acting_models; m += GROUP) {
        z[m] = clicks ? click_log_likelihood(memo, reward, reward - errors[m])
                      : log_likelihood(errors[m], variances[m], log(variances[m]), nu);
    }
    __syncwarp();
    const double theirs_log = z[0];
    double acting = theirs_log;
    if (live) {
        double share = rules[SHARE] * smaller(1.0, FADE / (counts[1] + 1.0));
        if (clicks) share *= CLICK_SHARE;
        double top = z[0], all = 0.0;
        for (int m = 1; m < ACTING; m++) top = larger(top, z[m]);
        for (int m = lane; m < ACTING; m += GROUP) {
            weights[m] *= exp(z[m] - top);
            all += weights[m];
        }
        all = group_sum(all);
        for (int m = lane; m < ACTING; m += GROUP) weights[m] = (1.0 - share) * weights[m] / all + share * fair(m);
        acting = top + log(all);
        __syncwarp();
    }

    // What they say about a change; a lane for each rung.
    int fired = 0;
    if (detect) {
        const double cap = larger(ERROR_CAP, memo[PRIOR] * memo[FIRST_SQUARE] / noise);
        const double theirs = smaller(errors[0] * errors[0] / (width * noise), cap);
        double strongest = WITHOUT_BEST;
        int mine = NONE;
        for (int k = lane; k < RUNGS; k += GROUP) {
            if (!(todo >> (FIRST_RUNG + k) & 1u)) continue;
            double* sum = sums + k * SUMS;
            const double error = errors[FIRST_RUNG - 1 + k], own_width = variances[FIRST_RUNG - 1 + k];
            const double count = counts[FIRST_RUNG + k];
            double evidence, without;
            if (clicks) {
                const double own = click_log_likelihood(memo, reward, reward - error);
                sum[OWN] -= own;
                sum[THEIRS] -= theirs_log;
                sum[LARGEST_GAIN] = larger(sum[LARGEST_GAIN], own - theirs_log);
                sum[LEAD] += own - acting;
                evidence = sum[THEIRS] - sum[OWN];
                without = evidence - sum[LARGEST_GAIN];
            } else {
                const double own = smaller(error * error / (own_width * noise), cap), log_width = log(own_width);
                sum[THEIRS] += theirs;
                sum[OWN] += own;
                sum[NOISE_SUM] += own * noise;
                sum[LOG_WIDTH] += log_width - log(width);
                sum[LARGEST_GAIN] = larger(sum[LARGEST_GAIN], theirs - own);
                sum[LEAD] += log_likelihood(error, noise * own_width, log(noise) + log_width, nu) - acting;
                evidence = log_evidence(sum, count, 0.0);
                without = evidence > WITHOUT_BEST ? log_evidence(sum, count, sum[LARGEST_GAIN]) : 0.0;
            }
            if (evidence > strongest && without > WITHOUT_BEST) strongest = evidence, mine = k;
            double* home = bank + (FIRST_RUNG + k) * RUNG + behind;
            for (int i = 0; i < SUMS; i++) home[i] = sum[i];
        }
        const double highest = group_max(strongest);
        const int best = group_min(mine != NONE && strongest == highest ? mine : NONE);
        __syncwarp();
        const double threshold = threshold_of(memo, counts[1], rules[DELTA]);
        if (best != NONE && highest > threshold &&
            holds(memo, sums[best * SUMS + THEIRS], counts[FIRST_RUNG + best], columns)) {
            fired = 1;
            double *incumbent = bank + RUNG, *heir = bank + (FIRST_RUNG + best) * RUNG;
            for (int i = lane; i < columns; i += GROUP) memo[VECTORS + i] = incumbent[1 + i];
            __syncwarp();
            for (int i = lane; i < RUNG; i += GROUP) incumbent[i] = heir[i];
            __syncwarp();
            clear_rungs(bank);
            if (lane == 0) {
                const double* sum = sums + best * SUMS;
                const double worth = sum[NU] + counts[FIRST_RUNG + best];
                memo[ALARM_EVIDENCE] = highest;
                memo[ALARM_THRESHOLD] = threshold;
                memo[ALARM_AGE] = counts[1] = counts[FIRST_RUNG + best];
                inherit(weights, sum[LEAD]);
                take_over_noise(memo, sum[NOISE_SUM] / worth, worth);
                memo[ALARMS] += 1.0;
            }
            __syncwarp();
        }
    }

    // What the world looks like now, and who is born.
    double taste = 0.0;
    for (int i = lane; i < columns; i += GROUP) taste += elder[i] / units[i] * (elder[i] / units[i]) / columns;
    taste = group_sum(taste);
    if (lane == 0) {
        tally(memo, reward, surplus, size);
        scratch[0] = are_clicks(memo) != clicks;
        rescale(memo, taste);
        const bool late = !(memo[SPREAD] > 0.0 && memo[ROUNDS] < BELIEVES);
        const bool start = EXPERTS > 0 && memo[REWARD_SQUARES] > 0.0 && !live && memo[ALL_COUNT] >= columns && late;
        scratch[1] = start;
        if (start) {
            memo[EXPERTS_LIVE] = 1.0;
            for (int m = 0; m < ACTING; m++) weights[m] = fair(m);
        }
    }
    __syncwarp();
    if (scratch[0] != 0.0) clear_rungs(bank);
    if (scratch[1] != 0.0) {
        for (int m = 2; m < FIRST_RUNG; m++) {
            write_model(bank + m * RUNG, columns, 0.0, elder, 1.0, EXPERT_SPREAD * memo[TASTE], units);
        }
    }
    if (memo[REWARD_SQUARES] > 0.0 && detect && counts[1] >= 2.0) {
        bool birth;
        const int due = rung_due(memo, birth);
        if (due >= 0) {
            double* row = bank + (FIRST_RUNG + due) * RUNG;
            if (birth) {
                const bool cautious = are_clicks(memo);
                const double ridge = larger(memo[NOISE] / memo[PRIOR], LEAST_RIDGE * memo[FIRST_SQUARE]);
                const double known = smaller(larger(memo[RECENT_COUNT], 0.5), cautious ? CLICK_MOST_NU : MOST_NU);
                write_model(row, columns, 0.0, elder, memo[SHRINK], 1.0 / ridge, units);
                if (lane == 0) row[behind + NU] = known, row[behind + NOISE_SUM] = known * memo[NOISE];
            } else {
                clear_rung(row);
            }
        }
    }
    __syncwarp();
    return fired;
}

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

    // The first sweep sees what the pool is like, the second scores; a pool of one chunk keeps its numbers between them.
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
                if (sweep == 0 || count > GROUP) {
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
                    sum += square;
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
                const double spread = memo[PICK_COUNT] * sum / (count * SLACK * known);
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
