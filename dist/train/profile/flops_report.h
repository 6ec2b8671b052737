#pragma once  // not in tessera.h

#include <string>

#include "dist/train/profile/flops_profile.h"

namespace tessera::training {

/// What a report shows; DeepSpeed's keys.
struct ReportOptions {
  int module_depth = -1;  ///< levels of the tree below the profiled module; -1: all
  int top_modules = 1;    ///< kinds of modules listed per depth, and modules in the list of the slowest
  bool detailed = true;   ///< whether the tree is printed
};

/// The profile as text, in DeepSpeed's order: a summary of the step; for each depth the kinds of modules with
/// the most parameters, MACs and time; the slowest modules, the slowest first, by their own time; the tree,
/// one module a line: parameters, MACs and latency with their shares, FLOPS, and the share of the machine's
/// rate where that is known. MACs are half of the FLOPs, and both are forward's where nothing else is said.
/// Throws ConfigError for a depth below -1 or fewer than one module.
std::string flops_report(const FlopsProfile& profile, const ReportOptions& options = {});

/// "750", "65.8 k", "4.19 MFLOPS": three digits, a decimal prefix and the unit.
std::string amount_text(double amount, const char* unit = "");
/// "1.23 s", "4.5 ms", "12 us".
std::string duration_text(int64_t nanoseconds);

}  // namespace tessera::training
