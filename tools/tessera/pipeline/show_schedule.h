#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace tessera::tools {

struct ScheduleFlags {
  std::string kind = "1f1b";
  int stages = 4;  ///< of the pipeline: its ranks
  int micro_batches = 8;
  int chunks = 0;     ///< of each rank; 0: the kind's default
  int group = 0;      ///< of interleaved; 0: the default
  int most_live = 0;  ///< micro-batches that a rank may hold; 0: no limit
  double forward = 1, backward_input = 1, backward_weight = 1;  ///< of one micro-batch, all chunks of a rank
  double latency = 0;                                           ///< of a message
  bool messages = false;                                        ///< adds SEND and RECV
  std::string unshard = "";   ///< adds UNSHARD, RESHARD and REDUCE_GRAD: "step" or "action"; empty: none
  std::string from_csv = "";  ///< the file of a schedule, instead of kind, stages, ...; empty: none
  std::string csv = "";       ///< the file to write the table to; empty: none
  std::string svg = "";       ///< the file for the timeline; empty: none
  /// Traces of a run of this schedule, as gptlite's --profile writes them; the last step that is whole in
  /// them is shown beside the simulated one.
  std::vector<std::string> traces = {};
};

/// Prints the table of a schedule, what each rank holds and computes, the time of a step and its bubble;
/// writes the files. Throws ConfigError for invalid flags, a schedule that is wrong by
/// `dist::check_schedule`, a trace of another schedule, and a file that cannot be read or written.
void show_schedule(const ScheduleFlags& flags, std::ostream& out);

}  // namespace tessera::tools
