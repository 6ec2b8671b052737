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
  /// Whether monitors get the value of a step of training, every `TrainerOptions::log_every` steps: over the
  /// micro-batches of that step and all ranks.
  bool on_step = false;
  /// Whether there is a value of the epoch. A name that monitors get both ways has two names there:
  /// NAME_step and NAME_epoch.
  bool on_epoch = true;
  /// The weight of the batch in a mean, instead of its samples: the targets of a text, for example.
  std::optional<double> weight = {};
};

/// The texts of all ranks, on every rank, in their order. All ranks call it.
std::vector<std::string> gather_texts(dist::Communicator& ranks, const std::string& text);

/// The values that a task logs in an epoch, by name.
class LoggedValues {
 public:
  /// Adds a batch's value; `weight` is its number of samples. Throws ConfigError, naming the value, for a
  /// name that was logged with another reduction before, and for an empty one.
  void add(const std::string& name, double value, double weight, const LogOptions& options);
  /// The value of each name over all batches, and over all ranks where `ranks` is not null: one collective of
  /// numbers, after one that compares the names. Throws ConfigError, on all ranks, naming a value that some
  /// ranks lack or reduce in another way.
  std::map<std::string, double> reduce(dist::Communicator* ranks) const;
  /// The newest value of each name, of this rank's batch.
  const std::map<std::string, double>& newest() const { return newest_; }
  /// The name by which monitors get the value of an epoch.
  std::string epoch_name(const std::string& name) const;
  /// The sums of this rank as text, of which `add_state` makes the same bits.
  std::string state() const;
  /// Adds the sums that `state` returned on some rank. Throws CheckpointError for any other text.
  void add_state(const std::string& state);
  /// Whether nothing was added.
  bool empty() const { return sums_.empty(); }
  /// Forgets all values.
  void clear();

 private:
  struct Sum {
    LogReduction reduction;
    double value = 0, weight = 0;
    bool on_step = false;  // also
  };
  std::map<std::string, Sum> sums_;
  std::map<std::string, double> newest_;
};

/// Adds the sums of each rank to what a checkpoint keeps as text. All ranks call it; null: there is one.
void save_sums(const LoggedValues& values, dist::Communicator* ranks,
               std::map<std::string, std::string>& saved);
/// The inverse, on one of `world_size` ranks. With as many ranks as saved the sums have their bits; another
/// number of ranks shares them out. Throws CheckpointError for other texts under these names.
void load_sums(LoggedValues& values, int rank, int world_size,
               const std::map<std::string, std::string>& saved);

}  // namespace tessera::training
