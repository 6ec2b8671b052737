#include "optim/schedules/deepspeed/lr_range_test.h"

#include <cmath>

#include "optim/schedules/deepspeed/iteration.h"

namespace tessera::optim {

Schedule lr_range_test(const LRRangeTestOptions& options) {
  constexpr char name[] = "lr_range_test";
  require_rate(name, "lr_range_test_min_lr", options.lr_range_test_min_lr);
  require_steps(name, "lr_range_test_step_size", options.lr_range_test_step_size, 1);
  require_rate(name, "lr_range_test_step_rate", options.lr_range_test_step_rate);
  const auto rate = [o = options](int64_t step, double) {
    const double exact = static_cast<double>(step) / static_cast<double>(o.lr_range_test_step_size);
    const double intervals = o.lr_range_test_staircase ? std::floor(exact) : exact;
    return o.lr_range_test_min_lr * (1.0 + o.lr_range_test_step_rate * intervals);
  };
  return resumed_after(options.last_batch_iteration,
                       {name, rate, std::optional(options.lr_range_test_min_lr)});
}

}  // namespace tessera::optim
