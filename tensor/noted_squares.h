#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>

namespace tessera {

/// Sums of squares of the values of a tensor and its views, each of one window of their memory, as long as
/// the values stay as they are. Test: tests/optim/gradient_squares_test.cpp.
class NotedSquares {
 public:
  /// Notes the sum of the `numel` values from `data` on, as they are at `version`. Sums of other versions are
  /// forgotten, and that of another window from `data` on.
  void note(uint64_t version, const void* data, int64_t numel, double sum) {
    const Window window{version, data, numel, sum};
    if (!first_ || first_->version != version) {
      first_ = window;
      others_.reset();
    } else if (first_->data == data) {
      first_ = window;
    } else {
      if (!others_) others_ = std::make_unique<Windows>();
      (*others_)[data] = window;
    }
  }

  /// The sum noted of this window at this version; else nothing.
  std::optional<double> find(uint64_t version, const void* data, int64_t numel) const {
    if (!first_ || first_->version != version) return std::nullopt;
    const Window* window = &*first_;
    if (first_->data != data) {
      if (!others_) return std::nullopt;
      const auto found = others_->find(data);
      if (found == others_->end()) return std::nullopt;
      window = &found->second;
    }
    return window->numel == numel ? std::optional(window->sum) : std::nullopt;
  }

 private:
  struct Window {
    uint64_t version;
    const void* data;
    int64_t numel;
    double sum;
  };
  using Windows = std::unordered_map<const void*, Window>;

  std::optional<Window> first_;      // most tensors have one
  std::unique_ptr<Windows> others_;  // of the same version; null: none
};

}  // namespace tessera
