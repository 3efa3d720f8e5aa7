// How DriftUCB learns a reward, by the lanes of a warp: `kernels.driftucb.drift.learn`.
//
// The models (elder, incumbent, experts, rungs) pass through two buffers one after the other, the next one on its way
// while one learns. What follows from all their errors is computed behind the pass, with a lane for each model.

// How a model drifts: theta becomes keep * theta + pull * elder, a covariance P becomes fade * P + lift * units^2. The
// noise of its rewards is at least `least` times the variance of the arm's mean.
struct Drift {
    double keep, fade, lift, pull, least;
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
    variance = larger(noise, drift.least * square) + larger(square, 0.0);
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

enum { NOT_USABLE = -1, NOTHING_TO_LEARN, LEARNS };

// One reward of one scope, and what is found out about it on the way.
struct Round {
    // In shared memory.
    double *memo, *x, *z, *old, *elder;          // the last two are the elder's weights before and after the reward
    double *errors, *variances, *counts, *sums;  // of all models, the sums of all rungs
    double *scratch, *rows;
    const double *units, *anchor;
    const double* rules;
    double *weights, *bank;
    double reward;
    int lane, columns, matrix, behind;  // where the matrix of a row begins, and where its sums do
    double base, surplus, size;         // of the reward, what the anchor expects and what is beyond it; |x|^2
    double noise, total;                // the mixture's variance in all
    double width, nu;                   // 1 + x' A^-1 x of the incumbent; degrees of freedom
    double acting, incumbent_log;       // log-likelihoods of the reward under the mixture and under the incumbent
    bool clicks, live, detect;
    unsigned todo;  // models that live, as bits

    __device__ __forceinline__ Round(const double* given, double* shared, double* models, double found)
        : memo(shared), x(shared + AT_X), z(shared + AT_Z), old(shared + AT_OLD), elder(shared + AT_ELDER),
          errors(shared + AT_ERRORS), variances(shared + AT_VARIANCES), counts(shared + AT_COUNTS),
          sums(shared + AT_SUMS), scratch(shared + AT_SCRATCH), rows(shared + AT_ROWS),
          units(shared + VECTORS + MOST), anchor(shared + VECTORS + 2 * MOST), rules(given), weights(shared + MEMO),
          bank(models), reward(found), lane(group_lane()), columns((int)shared[COLUMNS]), matrix(1 + columns),
          behind(matrix + columns * (columns + 1) / 2) {}

    __device__ __forceinline__ int begin_round(const double* played);
    __device__ __forceinline__ void learn_models();
    __device__ __forceinline__ void weigh_models();
    __device__ __forceinline__ bool seek_change();
    __device__ __forceinline__ void replace_incumbent(int best, double evidence, double threshold);
    __device__ __forceinline__ void end_round();
    __device__ __forceinline__ void renew();
};

// Whether there is something to learn; sets the units if they are not known.
__device__ __forceinline__ int Round::begin_round(const double* played) {
    for (int i = lane; i < columns; i += GROUP) x[i] = i < DIM ? played[i] : 1.0;
    for (int m = lane; m < MODELS; m += GROUP) counts[m] = bank[m * RUNG];
    __syncwarp();
    base = size = 0.0;
    for (int i = lane; i < columns; i += GROUP) {
        base += memo[ANCHORED] > 0.0 ? x[i] * anchor[i] : 0.0;
        size += x[i] * units[i] * (x[i] * units[i]);
    }
    base = group_sum(base);
    size = group_sum(size);
    if (!is_finite(size) || !is_finite(reward)) return NOT_USABLE;
    if (size < SMALLEST) return NOTHING_TO_LEARN;
    surplus = tame(memo, reward - base);
    const bool told = memo[SPREAD] != 0.0, first = memo[FIRST_SQUARE] == 0.0;
    if (!first && size > LARGEST * memo[FIRST_SQUARE] && !told) return NOT_USABLE;
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
    noise = memo[NOISE];
    clicks = are_clicks(memo), live = memo[EXPERTS_LIVE] > 0.0, detect = rules[DETECT] > 0.0;
    return LEARNS;
}

// Show the reward to every model that lives.
__device__ __forceinline__ void Round::learn_models() {
    todo = live ? (1u << FIRST_RUNG) - 1u : 3u;
    for (int k = 0; k < RUNGS; k++) {
        if (detect && counts[FIRST_RUNG + k] >= 0.0) todo |= 1u << (FIRST_RUNG + k);
    }
    const int length = (behind + SUMS + 1) / 2 * 2;
    int now = 0, buffer = 0;
    total = 0.0;
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
        Drift drift = {1.0, 1.0, 0.0, 0.0, 0.0};
        if (expert) {
            const double keep = rules[KEEP + now - 2], fade = keep * keep;
            drift = {keep, fade, (1.0 - fade) * EXPERT_SPREAD * memo[TASTE], (1.0 - keep) * memo[SHRINK], CANCELLED};
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
}

// What their errors say about the noise and about who should act.
__device__ __forceinline__ void Round::weigh_models() {
    width = variances[1];
    __syncwarp();
    if (lane == 0) {
        variances[1] = noise * width;
        memo[ELDER_ERRORS] += errors[0] * errors[0] / variances[0];
        remember_pick(memo, variances + 1, total);
        learn_noise(memo, errors + 1, variances + 1);
    }
    __syncwarp();
    nu = smaller(larger(memo[RECENT_COUNT], 1.0), clicks ? CLICK_FREEDOM : FREEDOM);
    for (int m = lane; m < (live ? ACTING : 1); m += GROUP) {
        const double error = errors[1 + m], variance = variances[1 + m];
        z[m] = clicks ? click_log_likelihood(memo, reward, reward - error)
                      : log_likelihood(error, variance, log(variance), nu);
    }
    __syncwarp();
    acting = incumbent_log = z[0];
    if (!live) return;
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

// What their errors say about a change, with a lane for each rung; whether there was an alarm.
__device__ __forceinline__ bool Round::seek_change() {
    const double cap = larger(ERROR_CAP, memo[PRIOR] * memo[FIRST_SQUARE] / noise);
    const double theirs = smaller(errors[1] * errors[1] / (width * noise), cap);
    double strongest = WITHOUT_BEST;
    int mine = NONE;
    for (int k = lane; k < RUNGS; k += GROUP) {
        if (!(todo >> (FIRST_RUNG + k) & 1u)) continue;
        double* sum = sums + k * SUMS;
        const double error = errors[FIRST_RUNG + k], own_width = variances[FIRST_RUNG + k];
        const double count = counts[FIRST_RUNG + k];
        double evidence, without;
        if (clicks) {
            const double own = click_log_likelihood(memo, reward, reward - error);
            sum[OWN] -= own;
            sum[THEIRS] -= incumbent_log;
            sum[LARGEST_GAIN] = larger(sum[LARGEST_GAIN], own - incumbent_log);
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
    const bool alarm = best != NONE && highest > threshold &&
                       holds(memo, sums[best * SUMS + THEIRS], counts[FIRST_RUNG + best], columns);
    if (alarm) replace_incumbent(best, highest, threshold);
    return alarm;
}

// Make a young model the incumbent, with the weight that it has earned since its birth.
__device__ __forceinline__ void Round::replace_incumbent(int best, double evidence, double threshold) {
    double *incumbent = bank + RUNG, *heir = bank + (FIRST_RUNG + best) * RUNG;
    for (int i = lane; i < columns; i += GROUP) memo[VECTORS + i] = incumbent[1 + i];
    __syncwarp();
    for (int i = lane; i < RUNG; i += GROUP) incumbent[i] = heir[i];
    __syncwarp();
    clear_rungs(bank);
    if (lane == 0) {
        const double* sum = sums + best * SUMS;
        const double worth = sum[NU] + counts[FIRST_RUNG + best];
        memo[ALARM_EVIDENCE] = evidence;
        memo[ALARM_THRESHOLD] = threshold;
        memo[ALARM_AGE] = counts[1] = counts[FIRST_RUNG + best];
        inherit(weights, sum[LEAD]);
        take_over_noise(memo, sum[NOISE_SUM] / worth, worth);
        memo[ALARMS] += 1.0;
    }
    __syncwarp();
}

// What the world looks like now, and who is born.
__device__ __forceinline__ void Round::end_round() {
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
    if (memo[REWARD_SQUARES] > 0.0 && detect && counts[1] >= 2.0) renew();
    __syncwarp();
}

// Replace the rung whose turn it is by a new model, if that could tell a shift from noise.
__device__ __forceinline__ void Round::renew() {
    bool birth;
    const int due = rung_due(memo, birth);
    if (due < 0) return;
    double* row = bank + (FIRST_RUNG + due) * RUNG;
    if (!birth) return clear_rung(row);
    const double ridge = larger(memo[NOISE] / memo[PRIOR], LEAST_RIDGE * memo[FIRST_SQUARE]);
    const double known = smaller(larger(memo[RECENT_COUNT], 0.5), are_clicks(memo) ? CLICK_MOST_NU : MOST_NU);
    write_model(row, columns, 0.0, elder, memo[SHRINK], 1.0 / ridge, units);
    if (lane == 0) row[behind + NU] = known, row[behind + NOISE_SUM] = known * memo[NOISE];
}

// Learn one reward: 1 if it raised an alarm, else 0, or -1 if it is not usable and nothing has changed.
__device__ int learn_scope(const double* rules, double* shared, double* bank, const double* played, double reward) {
    Round round(rules, shared, bank, reward);
    const int begun = round.begin_round(played);
    if (begun != LEARNS) return begun;
    round.learn_models();
    round.weigh_models();
    const bool alarm = round.detect && round.seek_change();
    round.end_round();
    return alarm;
}
