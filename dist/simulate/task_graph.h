#pragma once  // internal

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera::dist {

/// Tasks in time, in discrete events. A lane runs its tasks one after another, in the order in which they
/// were put on it: what a rank computes, or a link that sends. A task begins when it is the next one of each
/// of its lanes and the tasks that it waits for have ended. With these rules nothing is chosen, so the times
/// follow from the graph alone: one pass over its edges finds them, or, where tasks share links, one over the
/// events in time.
class TaskGraph {
 public:
  using Task = int32_t;

  /// The begin and the end of a task.
  struct Time {
    double begin = 0;  ///< since the start, in seconds
    double end = 0;    ///< begin and its duration
  };

  /// A new lane, without tasks.
  int add_lane();
  /// A new task of a duration in seconds, which is on no lane yet and waits for nothing. A negative number of
  /// seconds is a ConfigError.
  Task add(double seconds);
  /// Puts a task at the end of a lane. A task may be on several, which it occupies at the same time: a
  /// collective occupies a lane of each of its ranks.
  void put(Task task, int lane);
  /// A new link, which several tasks may use at the same time: of n such tasks each advances at 1/n of its
  /// speed.
  int add_link();
  /// A task uses a link, beside its lanes. One on several links has the speed of the slowest.
  void use(Task task, int link);
  /// `task` begins `latency` seconds after the end of `before` or later.
  void wait_for(Task task, Task before, double latency = 0);

  /// The times of all tasks. Throws ConfigError when tasks wait for each other in a circle.
  std::vector<Time> run() const;
  /// How many tasks there are.
  size_t size() const { return seconds_.size(); }

 private:
  /// `after` waits for `before`.
  struct Edge {
    Task before, after;
    double latency;
  };
  /// Edges by the task that they come from, and of each task the number of those that it waits for.
  struct Order {
    std::vector<size_t> first, waits;
    std::vector<const Edge*> by_task;
  };
  Order order() const;
  std::vector<Time> run_on_links() const;
  void require_ended(size_t ended) const;

  std::vector<double> seconds_;  // by task
  std::vector<Task> last_;       // by lane: its last task, or -1
  std::vector<Edge> edges_;
  std::map<Task, std::vector<int>> links_of_;  // by task, of those that use some
  int links_ = 0;
};

}  // namespace tessera::dist
