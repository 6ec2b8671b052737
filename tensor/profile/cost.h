#pragma once

#include <cstdint>

namespace tessera {

/// Floating-point operations of matrix products and attention (a multiply-add is two), counted by raw ops on
/// every device, meta included: a meta run of a module yields its FLOPs.
struct Cost {
  int64_t flops = 0;  ///< counted so far
};

/// Adds to all CostScopes of this thread and, while a profiler is open, to what `take_counted_flops` returns.
void count_flops(int64_t flops);

/// Returns the FLOPs that this thread counted since the last call while a profiler was open, and starts again
/// from 0: they belong to the kernel that ends now.
int64_t take_counted_flops();

/// Collects into `cost`, and into the scopes around it, while the scope lives.
class CostScope {
 public:
  /// `cost` must outlive the scope; what it holds already stays.
  explicit CostScope(Cost& cost);
  ~CostScope();
  CostScope(const CostScope&) = delete;
  CostScope& operator=(const CostScope&) = delete;

 private:
  friend void count_flops(int64_t flops);
  Cost* cost_;
  CostScope* outer_;
};

}  // namespace tessera
