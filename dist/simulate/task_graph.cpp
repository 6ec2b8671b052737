#include "dist/simulate/task_graph.h"

#include <algorithm>

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

std::vector<TaskGraph::Time> TaskGraph::run() const {
  // Edges by the task that they come from, and of each task the number of those that it waits for.
  std::vector<size_t> first(seconds_.size() + 1), next, waits(seconds_.size());
  for (const Edge& edge : edges_) {
    ++first[static_cast<size_t>(edge.before) + 1];
    ++waits[static_cast<size_t>(edge.after)];
  }
  for (size_t i = 1; i < first.size(); ++i) first[i] += first[i - 1];
  next.assign(first.begin(), first.end() - 1);
  std::vector<const Edge*> by_task(edges_.size());
  for (const Edge& edge : edges_) by_task[next[static_cast<size_t>(edge.before)]++] = &edge;

  std::vector<Time> times(seconds_.size());
  std::vector<size_t> ready;
  for (size_t task = 0; task < waits.size(); ++task)
    if (waits[task] == 0) ready.push_back(task);
  size_t ended = 0;
  for (; ended < ready.size(); ++ended) {
    const size_t task = ready[ended];
    times[task].end = times[task].begin + seconds_[task];
    for (size_t i = first[task]; i < first[task + 1]; ++i) {
      const auto after = static_cast<size_t>(by_task[i]->after);
      times[after].begin = std::max(times[after].begin, times[task].end + by_task[i]->latency);
      if (--waits[after] == 0) ready.push_back(after);
    }
  }
  require<ConfigError>(ended == seconds_.size(), "simulation: ", seconds_.size() - ended, " of ",
                       seconds_.size(), " tasks wait for each other in a circle");
  return times;
}

}  // namespace tessera::dist
