#include "dist/train/trainer/logged_values.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <set>
#include <string_view>

#include "dist/comm/interface/communicator.h"
#include "dist/train/monitors/metric_file.h"
#include "tensor/error.h"
#include "tensor/memory/account.h"
#include "tensor/ops/creation/creation.h"

namespace tessera::training {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

/// The word at the beginning of `line`, which it removes with the space after it.
std::string take_word(std::string& line) {
  const size_t space = std::min(line.find(' '), line.size());
  std::string word = line.substr(0, space);
  line.erase(0, space + 1);
  return word;
}

double number_of(const std::string& word) {
  double value = 0;
  const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  require<CheckpointError>(error == std::errc() && end == word.data() + word.size(),
                           "sums of logged values: expected a number, got '", word, "'");
  return value;
}

LogReduction reduction_of(const std::string& word) {
  constexpr std::string_view numbers = "0123";
  require<CheckpointError>(word.size() == 1 && numbers.find(word) != numbers.npos,
                           "sums of logged values: expected a reduction, got '", word, "'");
  return static_cast<LogReduction>(word[0] - '0');
}

}  // namespace

std::vector<std::string> gather_texts(dist::Communicator& ranks, const std::string& text) {
  Tensor longest = ops::full({1}, static_cast<int64_t>(text.size()), i64);
  ranks.all_reduce(longest, dist::Reduction::max).wait();
  const int64_t width = longest.data<int64_t>()[0] + 1;
  const Tensor own = Tensor::zeros({width}, u8), all = Tensor::zeros({width * ranks.size()}, u8);
  std::copy(text.begin(), text.end(), own.data<uint8_t>());
  ranks.all_gather(all, own).wait();
  std::vector<std::string> texts;
  for (int r = 0; r < ranks.size(); ++r)
    texts.emplace_back(reinterpret_cast<const char*>(all.data<uint8_t>() + r * width));
  return texts;
}

namespace {

std::set<std::string> lines(const std::string& text) {
  std::set<std::string> all;
  for (size_t at = 0, end = text.find('\n'); end != text.npos; at = end + 1, end = text.find('\n', at))
    all.insert(text.substr(at, end - at));
  return all;
}

const char* name_of(char reduction) {
  constexpr const char* names[] = {"mean", "sum", "min", "max"};
  return names[reduction - '0'];
}

/// Throws ConfigError on every rank where the names or the reductions of two ranks differ. Where they are the
/// same, one collective of two numbers says so.
void require_same_names(dist::Communicator& ranks, const std::string& names, const std::string& reductions) {
  const auto hash = static_cast<int64_t>(std::hash<std::string>()(names + reductions) >> 1);
  const Tensor largest = Tensor::empty({2}, i64);  // of the hashes, and of the negated ones
  largest.data<int64_t>()[0] = hash;
  largest.data<int64_t>()[1] = -hash;
  ranks.all_reduce(largest, dist::Reduction::max).wait();
  if (largest.data<int64_t>()[0] == -largest.data<int64_t>()[1]) return;
  const std::vector<std::string> all = gather_texts(ranks, names);
  const std::set<std::string> first = lines(all[0]);
  for (size_t r = 1; r < all.size(); ++r) {
    const std::set<std::string> other = lines(all[r]);
    const auto missing = [&](const std::set<std::string>& from, const std::set<std::string>& in, size_t has,
                             size_t lacks) {
      for (const std::string& name : from)
        require<ConfigError>(in.contains(name), "log: expected the same names on all ranks, got '", name,
                             "' on rank ", has, " and not on rank ", lacks);
    };
    missing(first, other, 0, r);
    missing(other, first, r, 0);
  }
  // The names are the same, in the same order; each has one character for its reduction.
  const std::vector<std::string> kinds = gather_texts(ranks, reductions);
  for (size_t r = 1; r < kinds.size(); ++r) {
    size_t at = 0;
    for (const std::string& name : first) {
      require<ConfigError>(kinds[0][at] == kinds[r][at], "log: expected the same reduction of '", name,
                           "' on all ranks, got ", name_of(kinds[0][at]), " on rank 0 and ",
                           name_of(kinds[r][at]), " on rank ", r);
      ++at;
    }
  }
}

std::string sums_name(size_t rank) {
  return text("logged_sums.", rank);
}

}  // namespace

void LoggedValues::add(const std::string& name, double value, double weight, const LogOptions& options) {
  require<ConfigError>(!name.empty() && name.find('\n') == name.npos,
                       "log: expected a name on one line, got '", name, "'");
  const double factor = options.weight.value_or(options.is_weighted ? weight : 1.0);
  const auto [at, is_new] = sums_.try_emplace(name, Sum{.reduction = options.reduction});
  Sum& sum = at->second;
  require<ConfigError>(sum.reduction == options.reduction, "log: '", name,
                       "' was logged with another reduction before in this epoch");
  switch (options.reduction) {
    case LogReduction::mean:
      if (factor != 0) sum.value += value * factor;  // the mean of a batch without samples is NaN
      break;
    case LogReduction::sum:
      sum.value += value;
      break;
    case LogReduction::min:
      sum.value = is_new ? value : std::min(sum.value, value);
      break;
    case LogReduction::max:
      sum.value = is_new ? value : std::max(sum.value, value);
      break;
  }
  sum.weight += factor;
  sum.on_step |= options.on_step;
  newest_[name] = value;
}

std::map<std::string, double> LoggedValues::reduce(dist::Communicator* ranks) const {
  const CategoryScope category(MemoryCategory::communication);
  const auto count = static_cast<int64_t>(sums_.size());
  // Sums of values and weights, then values of which the smallest is taken; a largest one is the smallest of
  // the negated.
  Tensor added = Tensor::zeros({2 * count + 1}, f64), smallest = ops::full({count + 1}, infinity, f64);
  std::string names, reductions;
  bool has_smallest = false;
  int64_t i = 0;
  for (const auto& [name, sum] : sums_) {
    names += name + '\n';
    reductions += static_cast<char>('0' + static_cast<int>(sum.reduction));
    const bool is_added = sum.reduction == LogReduction::mean || sum.reduction == LogReduction::sum;
    added.data<double>()[2 * i] = is_added ? sum.value : 0;
    added.data<double>()[2 * i + 1] = sum.weight;
    if (!is_added) smallest.data<double>()[i] = sum.reduction == LogReduction::min ? sum.value : -sum.value;
    has_smallest |= !is_added;
    ++i;
  }
  if (ranks && ranks->size() > 1) {
    require_same_names(*ranks, names, reductions);
    ranks->all_reduce(added, dist::Reduction::sum).wait();
    if (has_smallest) ranks->all_reduce(smallest, dist::Reduction::min).wait();
  }
  std::map<std::string, double> values;
  i = 0;
  for (const auto& [name, sum] : sums_) {
    const double value = added.data<double>()[2 * i], weight = added.data<double>()[2 * i + 1],
                 least = smallest.data<double>()[i];
    switch (sum.reduction) {
      case LogReduction::mean:
        values[name] = value / weight;
        break;
      case LogReduction::sum:
        values[name] = value;
        break;
      case LogReduction::min:
        values[name] = least;
        break;
      case LogReduction::max:
        values[name] = -least;
        break;
    }
    ++i;
  }
  return values;
}

std::string LoggedValues::epoch_name(const std::string& name) const {
  const auto found = sums_.find(name);
  return found != sums_.end() && found->second.on_step ? name + "_epoch" : name;
}

std::string LoggedValues::state() const {
  std::string state;
  for (const auto& [name, sum] : sums_)
    state += text(static_cast<int>(sum.reduction), " ", sum.on_step ? 1 : 0, " ", number_text(sum.value), " ",
                  number_text(sum.weight), " ", name, "\n");
  return state;
}

void LoggedValues::add_state(const std::string& state) {
  for (std::string line : lines(state)) {
    const LogReduction reduction = reduction_of(take_word(line));
    const bool on_step = take_word(line) == "1";
    const double value = number_of(take_word(line)), weight = number_of(take_word(line));
    const auto [at, is_new] = sums_.try_emplace(line, Sum{.reduction = reduction});
    Sum& sum = at->second;
    if (is_new)
      sum.value = value;
    else if (reduction == LogReduction::min)
      sum.value = std::min(sum.value, value);
    else if (reduction == LogReduction::max)
      sum.value = std::max(sum.value, value);
    else
      sum.value += value;
    sum.weight += weight;
    sum.on_step |= on_step;
  }
}

void LoggedValues::clear() {
  sums_.clear();
  newest_.clear();
}

void save_sums(const LoggedValues& values, dist::Communicator* ranks,
               std::map<std::string, std::string>& saved) {
  const std::string own = values.state();
  const std::vector<std::string> all =
      ranks && ranks->size() > 1 ? gather_texts(*ranks, own) : std::vector<std::string>{own};
  for (size_t rank = 0; rank < all.size(); ++rank) saved[sums_name(rank)] = all[rank];
}

void load_sums(LoggedValues& values, int rank, int world_size,
               const std::map<std::string, std::string>& saved) {
  for (auto saver = static_cast<size_t>(rank);; saver += static_cast<size_t>(world_size)) {
    const auto found = saved.find(sums_name(saver));
    if (found == saved.end()) return;
    values.add_state(found->second);
  }
}

}  // namespace tessera::training
