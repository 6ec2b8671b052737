#include "dist/simulate/task_graph.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <queue>
#include <utility>

#include "tensor/error.h"

namespace tessera::dist {

int TaskGraph::add_lane() {
  last_.push_back(-1);
  return static_cast<int>(last_.size()) - 1;
}

TaskGraph::Task TaskGraph::add(double seconds) {
  require<ConfigError>(seconds >= 0, "simulation: expected a time of 0 or more seconds, got ", seconds);
  seconds_.push_back(seconds);
  return static_cast<Task>(seconds_.size()) - 1;
}

void TaskGraph::put(Task task, int lane) {
  Task& last = last_[static_cast<size_t>(lane)];
  if (last >= 0) wait_for(task, last);
  last = task;
}

void TaskGraph::wait_for(Task task, Task before, double latency) {
  edges_.push_back({before, task, latency});
}

int TaskGraph::add_link() {
  return links_++;
}

void TaskGraph::use(Task task, int link) {
  links_of_[task].push_back(link);
}

TaskGraph::Order TaskGraph::order() const {
  Order order{.first = std::vector<size_t>(seconds_.size() + 1),
              .waits = std::vector<size_t>(seconds_.size()),
              .by_task = std::vector<const Edge*>(edges_.size())};
  for (const Edge& edge : edges_) {
    ++order.first[static_cast<size_t>(edge.before) + 1];
    ++order.waits[static_cast<size_t>(edge.after)];
  }
  for (size_t i = 1; i < order.first.size(); ++i) order.first[i] += order.first[i - 1];
  std::vector<size_t> next(order.first.begin(), order.first.end() - 1);
  for (const Edge& edge : edges_) order.by_task[next[static_cast<size_t>(edge.before)]++] = &edge;
  return order;
}

void TaskGraph::require_ended(size_t ended) const {
  require<ConfigError>(ended == seconds_.size(), "simulation: ", seconds_.size() - ended, " of ",
                       seconds_.size(), " tasks wait for each other in a circle");
}

std::vector<TaskGraph::Time> TaskGraph::run() const {
  if (!links_of_.empty()) return run_on_links();
  Order order = this->order();
  std::vector<Time> times(seconds_.size());
  std::vector<size_t> ready;
  for (size_t task = 0; task < order.waits.size(); ++task)
    if (order.waits[task] == 0) ready.push_back(task);
  size_t ended = 0;
  for (; ended < ready.size(); ++ended) {
    const size_t task = ready[ended];
    times[task].end = times[task].begin + seconds_[task];
    for (size_t i = order.first[task]; i < order.first[task + 1]; ++i) {
      const auto after = static_cast<size_t>(order.by_task[i]->after);
      times[after].begin = std::max(times[after].begin, times[task].end + order.by_task[i]->latency);
      if (--order.waits[after] == 0) ready.push_back(after);
    }
  }
  require_ended(ended);
  return times;
}

namespace {

/// The tasks that use links now, each with the seconds that it would still need alone.
class SharedLinks {
 public:
  SharedLinks(const std::map<TaskGraph::Task, std::vector<int>>& links_of, int links)
      : links_of_(links_of), users_(static_cast<size_t>(links)) {}

  bool uses(size_t task) const { return links_of_.contains(static_cast<TaskGraph::Task>(task)); }
  void begin(size_t task, double seconds, double now) {
    advance(now);
    left_[task] = seconds;
    count(task, 1);
  }
  void end(size_t task, double now) {
    advance(now);
    left_.erase(task);
    count(task, -1);
  }
  /// The next task that ends if nothing else begins, and when.
  std::optional<std::pair<double, size_t>> next_end() const {
    std::optional<std::pair<double, size_t>> next;
    for (const auto& [task, left] : left_) {
      const std::pair<double, size_t> end(now_ + left * slowness(task), task);
      if (!next || end < *next) next = end;
    }
    return next;
  }

 private:
  void advance(double now) {
    for (auto& [task, left] : left_) left = std::max(0.0, left - (now - now_) / slowness(task));
    now_ = now;
  }
  /// How many times its seconds a task takes.
  double slowness(size_t task) const {
    int most = 1;
    for (const int link : links_of_.at(static_cast<TaskGraph::Task>(task)))
      most = std::max(most, users_[static_cast<size_t>(link)]);
    return most;
  }
  void count(size_t task, int more) {
    for (const int link : links_of_.at(static_cast<TaskGraph::Task>(task)))
      users_[static_cast<size_t>(link)] += more;
  }

  const std::map<TaskGraph::Task, std::vector<int>>& links_of_;
  std::vector<int> users_;         // by link
  std::map<size_t, double> left_;  // by task
  double now_ = 0;
};

}  // namespace

std::vector<TaskGraph::Time> TaskGraph::run_on_links() const {
  using Event = std::pair<double, size_t>;  // the begin or the end of a task
  const auto later = std::greater<Event>();
  std::priority_queue<Event, std::vector<Event>, decltype(later)> begins(later), ends(later);
  Order order = this->order();
  std::vector<Time> times(seconds_.size());
  SharedLinks links(links_of_, links_);
  for (size_t task = 0; task < order.waits.size(); ++task)
    if (order.waits[task] == 0) begins.emplace(0, task);
  size_t ended = 0;
  const auto end = [&](size_t task, double now) {
    ++ended;
    times[task].end = now;
    for (size_t i = order.first[task]; i < order.first[task + 1]; ++i) {
      const auto after = static_cast<size_t>(order.by_task[i]->after);
      times[after].begin = std::max(times[after].begin, now + order.by_task[i]->latency);
      if (--order.waits[after] == 0) begins.emplace(times[after].begin, after);
    }
  };
  while (true) {
    const auto on_link = links.next_end();
    const double none = std::numeric_limits<double>::infinity();
    const double first_end = ends.empty() ? none : ends.top().first,
                 first_begin = begins.empty() ? none : begins.top().first,
                 first_on_link = on_link ? on_link->first : none;
    if (std::min({first_end, first_begin, first_on_link}) == none) break;
    // What ends at a moment makes room for what begins at it.
    if (first_on_link <= first_end && first_on_link <= first_begin) {
      links.end(on_link->second, first_on_link);
      end(on_link->second, first_on_link);
    } else if (first_end <= first_begin) {
      const size_t task = ends.top().second;
      ends.pop();
      end(task, first_end);
    } else {
      const size_t task = begins.top().second;
      begins.pop();
      if (links.uses(task) && seconds_[task] > 0)
        links.begin(task, seconds_[task], first_begin);
      else
        ends.emplace(first_begin + seconds_[task], task);
    }
  }
  require_ended(ended);
  return times;
}

}  // namespace tessera::dist
