#pragma once  // not in tessera.h

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tessera::dist {
class Communicator;
}

namespace tessera::training {

/// How the values of batches and ranks become one.
enum class LogReduction { mean, sum, min, max };

/// Options of `Task::log`.
struct LogOptions {
  LogReduction reduction = LogReduction::mean;  ///< over batches and ranks; a mean is weighted by samples
  bool is_weighted = true;                      ///< false: every batch has the same weight in a mean
  /// The weight of the batch in a mean, instead of its samples: the targets of a text, for example.
  std::optional<double> weight = {};
};

/// The values that a task logs in an epoch, by name.
class LoggedValues {
 public:
  /// Adds a batch's value; `weight` is its number of samples. Throws ConfigError, naming the value, for a
  /// name that was logged with another reduction before, and for an empty one.
  void add(const std::string& name, double value, double weight, const LogOptions& options);
  /// The value of each name over all batches, and over all ranks where `ranks` is not null: one collective of
  /// numbers, after one that compares the names. Throws ConfigError, on all ranks, naming a value that some
  /// ranks lack.
  std::map<std::string, double> reduce(dist::Communicator* ranks) const;
  /// The newest value of each name, of this rank's batch.
  const std::map<std::string, double>& newest() const { return newest_; }
  /// Whether nothing was added.
  bool empty() const { return sums_.empty(); }
  /// Forgets all values.
  void clear();

 private:
  struct Sum {
    LogReduction reduction;
    double value = 0, weight = 0;
  };
  std::map<std::string, Sum> sums_;
  std::map<std::string, double> newest_;
};

}  // namespace tessera::training
