// How DriftUCB learns a reward, by the lanes of a warp: `kernels.drift.learn`.
//
// The models (elder, incumbent, experts, rungs) pass through two buffers one after the other, the next one on its way
// while one learns. What follows from all their errors is computed behind the pass, with a lane for each model.

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
