#include "optim/rules/strong_wolfe.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tessera::optim {
namespace {

/// The minimum of the cubic through two points with their slopes, within bounds.
double cubic_minimum(const LinePoint& a, const LinePoint& b, double low, double high) {
  const double d1 = a.slope + b.slope - 3.0 * (a.loss - b.loss) / (a.t - b.t);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0.0)) return (low + high) / 2.0;
  const double d2 = std::sqrt(square);
  const double t = a.t <= b.t ? b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2.0 * d2))
                              : a.t - (a.t - b.t) * ((a.slope + d2 - d1) / (a.slope - b.slope + 2.0 * d2));
  return std::min(std::max(t, low), high);
}

/// A search: two points that enclose an acceptable one. With one point, both are it.
struct Search {
  FunctionRef<LinePoint(double)> evaluate;
  const LinePoint& start;
  const WolfeOptions& options;
  LinePoint ends[2] = {};
  int lower = 0;      // the end with the lower loss, the first where both are equal
  int64_t count = 0;  // evaluations after the first
  bool done = false;
  bool stalled = false;  // the last trial was near an end of the bracket

  bool decreases(const LinePoint& p) const {
    return !(p.loss > start.loss + options.sufficient_decrease * p.t * start.slope);
  }
  bool is_flat(const LinePoint& p) const { return std::abs(p.slope) <= -options.curvature * start.slope; }
  const LinePoint& low() const { return ends[lower]; }
  const LinePoint& high() const { return ends[1 - lower]; }
  void order() { lower = ends[0].loss <= ends[1].loss ? 0 : 1; }
  void enclose(const LinePoint& a, const LinePoint& b) {
    ends[0] = a, ends[1] = b;
    order();
  }

  void bracket(double first);
  double trial();
  void zoom();
};

/// Lengthens the step until the minimum is behind it.
void Search::bracket(double first) {
  LinePoint previous = start, now = evaluate(first);
  for (; count < options.max_evaluations; ++count) {
    if (!decreases(now) || (count > 1 && now.loss >= previous.loss)) return enclose(previous, now);
    if (is_flat(now)) {
      done = true;
      return enclose(now, now);
    }
    if (now.slope >= 0.0) return enclose(previous, now);
    const double t = cubic_minimum(previous, now, now.t + 0.01 * (now.t - previous.t), now.t * 10.0);
    previous = std::exchange(now, evaluate(t));
  }
  enclose(start, now);
}

/// A step length inside the bracket, away from its ends after two trials near them.
double Search::trial() {
  const double left = std::min(ends[0].t, ends[1].t), right = std::max(ends[0].t, ends[1].t);
  const double t = cubic_minimum(ends[0], ends[1], left, right), margin = 0.1 * (right - left);
  const bool near_end = std::min(right - t, t - left) < margin;
  if (!near_end || !(stalled || t >= right || t <= left)) {
    stalled = near_end;
    return t;
  }
  stalled = false;
  return std::abs(t - right) < std::abs(t - left) ? right - margin : left + margin;
}

/// Narrows the bracket.
void Search::zoom() {
  for (; !done && count < options.max_evaluations; ++count) {
    if (std::abs(ends[1].t - ends[0].t) * options.direction_size < options.least_change) return;
    const LinePoint now = evaluate(trial());
    if (!decreases(now) || now.loss >= low().loss) {
      ends[1 - lower] = now;
      order();
      continue;
    }
    if (is_flat(now))
      done = true;
    else if (now.slope * (high().t - low().t) >= 0.0)
      ends[1 - lower] = low();
    ends[lower] = now;
  }
}

}  // namespace

LinePoint strong_wolfe(FunctionRef<LinePoint(double t)> evaluate, const LinePoint& start, double first,
                       const WolfeOptions& options, int64_t& evaluations) {
  Search search{evaluate, start, options};
  search.bracket(first);
  search.zoom();
  evaluations += 1 + search.count;
  return search.low();
}

}  // namespace tessera::optim
