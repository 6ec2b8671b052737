#pragma once  // internal

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tessera::dist {

/// A communicator over which a rank says what it does.
class PublishesActivity {
 public:
  virtual ~PublishesActivity() = default;
  /// What this rank does from here on, in a few words such as "1F3": errors of other ranks name it where this
  /// rank is stuck or lost. It counts as progress. At most 47 characters; empty: nothing in particular.
  virtual void publish_activity(std::string_view what) = 0;
};

/// What a rank does, in a few words, in plain bytes: for other ranks' errors.
using ActivityText = std::array<char, 48>;

/// The first characters of a text, and a 0.
inline ActivityText activity_text(std::string_view what) {
  ActivityText activity{};
  what.copy(activity.data(), activity.size() - 1);
  return activity;
}
/// "; it was in 1F3", or nothing where a rank did nothing in particular.
inline std::string described(const ActivityText& activity) {
  const std::string what(activity.data(), ::strnlen(activity.data(), activity.size()));
  return what.empty() ? "" : "; it was in " + what;
}

/// An ActivityText that one rank writes and others read, in memory that processes may share. A reader may see
/// parts of two: it reads again and again until a rank has been stuck for long.
class PostedActivity {
 public:
  void set(const ActivityText& activity) {
    for (size_t i = 0; i < words_.size(); ++i) {
      uint64_t word = 0;
      std::memcpy(&word, activity.data() + sizeof word * i, sizeof word);
      words_[i].store(word, std::memory_order_relaxed);
    }
  }
  ActivityText get() const {
    ActivityText activity{};
    for (size_t i = 0; i < words_.size(); ++i) {
      const uint64_t word = words_[i].load(std::memory_order_relaxed);
      std::memcpy(activity.data() + sizeof word * i, &word, sizeof word);
    }
    return activity;
  }

 private:
  std::array<std::atomic<uint64_t>, sizeof(ActivityText) / sizeof(uint64_t)> words_{};
};

}  // namespace tessera::dist
