#include "tools/profile/fit/worker_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "tools/profile/fit/robust_fit.h"

namespace tandem {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

double shown_stream(const WorkerSample& sample, double slowness, double ahead) {
  return std::max(0.0, slowness * sample.stream_s - ahead * sample.gap_s);
}

class WorkerFit {
 public:
  WorkerFit(const std::vector<WorkerSample>& samples, const WorkerBounds& bounds)
      : samples_(samples), bounds_(bounds) {
    // A job takes at most the time per group of the fastest sample, and a FLOP at most that of the
    // fastest.
    for (const WorkerSample& s : samples) {
      most_job_s_ = std::min(most_job_s_, s.seconds / s.groups);
      if (s.flops > 0) most_flop_s_ = std::min(most_flop_s_, s.seconds / s.flops);
    }
    most_job_s_ = std::max(most_job_s_, bounds.least_job_s);
    most_flop_s_ = std::max(std::isfinite(most_flop_s_) ? most_flop_s_ : 0, bounds.least_flop_s);
  }

  // Searches a grid over the two nonlinear parameters, then takes ever smaller steps from its best
  // point. A step that improves the fit is extended, because the two parameters can compensate for
  // each other and the optimum is then at the end of a narrow valley.
  WorkerFigures run() {
    constexpr double kRatio = 1.15;
    for (double slowness = bounds_.least_slowness; slowness <= bounds_.most_slowness;
         slowness *= kRatio) {
      for (int tenth = 0; tenth <= 10; ++tenth) try_with(slowness, 0.1 * tenth);
    }
    double ratio = std::sqrt(kRatio);
    double step = 0.05;
    for (int tries = 0; tries < 200 && step > 1e-4; ++tries) {
      const WorkerFigures from = best_;
      const double before = least_;
      for (const double by : {1 / ratio, 1.0, ratio}) {
        for (const double of : {-step, 0.0, step}) try_with(from.slowness * by, from.ahead + of);
      }
      if (least_ < before * (1 - 1e-4)) {
        const WorkerFigures to = best_;
        for (double farther = 2; farther < 100; farther *= 2) {
          const double reached = least_;
          try_with(from.slowness * std::pow(to.slowness / from.slowness, farther),
                   from.ahead + (to.ahead - from.ahead) * farther);
          if (least_ >= reached) break;
        }
        continue;
      }
      step /= 2;
      ratio = std::sqrt(ratio);
    }
    return best_;
  }

 private:
  void try_with(double slowness, double ahead) {
    slowness = std::clamp(slowness, bounds_.least_slowness, bounds_.most_slowness);
    ahead = std::clamp(ahead, 0.0, 1.0);
    WorkerFigures tried{bounds_.least_job_s, slowness, ahead, bounds_.least_flop_s};
    std::vector<double> weights(samples_.size(), 1.0);
    constexpr int kRounds = 5;
    for (int round = 0; round < kRounds; ++round) {
      solve(weights, tried);
      for (std::size_t i = 0; i < samples_.size(); ++i) {
        weights[i] = huber_weight(residual(samples_[i], tried));
      }
    }
    double loss = 0;
    for (const WorkerSample& sample : samples_) loss += huber_loss(residual(sample, tried));
    if (loss >= least_) return;
    least_ = loss;
    best_ = tried;
  }

  static double residual(const WorkerSample& sample, const WorkerFigures& figures) {
    return 1 - figures.seconds(sample) / sample.seconds;
  }

  // Weighted least squares of the two linear parameters within their bounds: the optimum is inside,
  // or on the edge with the least loss.
  void solve(const std::vector<double>& weights, WorkerFigures& figures) const {
    double xx = 0, xz = 0, zz = 0, xt = 0, zt = 0;
    for (std::size_t i = 0; i < samples_.size(); ++i) {
      const WorkerSample& s = samples_[i];
      const double x = s.groups / s.seconds;
      const double z = s.flops / s.seconds;
      const double target = 1 - shown_stream(s, figures.slowness, figures.ahead) / s.seconds;
      xx += weights[i] * x * x;
      xz += weights[i] * x * z;
      zz += weights[i] * z * z;
      xt += weights[i] * x * target;
      zt += weights[i] * z * target;
    }
    const auto job = [&](double value) {
      return std::clamp(value, bounds_.least_job_s, most_job_s_);
    };
    const auto flop = [&](double value) {
      return std::clamp(value, bounds_.least_flop_s, most_flop_s_);
    };
    const double determinant = xx * zz - xz * xz;
    if (determinant > 1e-12 * xx * zz) {
      const double a = (xt * zz - zt * xz) / determinant;
      const double c = (zt * xx - xt * xz) / determinant;
      if (a == job(a) && c == flop(c)) {
        figures.job_s = a;
        figures.flop_s = c;
        return;
      }
    }
    double least = kNever;
    const auto take = [&](double a, double c) {
      const double left = a * a * xx + 2 * a * c * xz + c * c * zz - 2 * a * xt - 2 * c * zt;
      if (left >= least) return;
      least = left;
      figures.job_s = a;
      figures.flop_s = c;
    };
    for (const double a : {bounds_.least_job_s, most_job_s_}) {
      take(a, flop(zz > 0 ? (zt - a * xz) / zz : 0));
    }
    for (const double c : {bounds_.least_flop_s, most_flop_s_}) take(job((xt - c * xz) / xx), c);
  }

  const std::vector<WorkerSample>& samples_;
  const WorkerBounds& bounds_;
  double most_job_s_ = kNever;
  double most_flop_s_ = kNever;
  double least_ = kNever;
  WorkerFigures best_;
};

}  // namespace

double WorkerFigures::seconds(const WorkerSample& sample) const {
  return job_s * sample.groups + shown_stream(sample, slowness, ahead) + flop_s * sample.flops;
}

WorkerFigures fit_worker(const std::vector<WorkerSample>& samples, const WorkerBounds& bounds) {
  TANDEM_CHECK(!samples.empty(), "a fit to nothing");
  return WorkerFit(samples, bounds).run();
}

}  // namespace tandem
