#include "tools/tessera/checkpoint_commands.h"

#include <algorithm>
#include <filesystem>
#include <ostream>

#include "dist/checkpoint/consolidate.h"
#include "tensor/number_text.h"
#include "tools/tessera/text_table.h"

namespace tessera::tools {
namespace {

using Rows = std::vector<std::vector<std::string>>;

/// A value on one line: a line break as "\n", other control characters as '?'.
std::string printable(const std::string& value) {
  std::string line;
  for (char c : value) {
    if (c == '\n') {
      line += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      line += '?';
    } else {
      line += c;
    }
  }
  return line;
}

void print_strings(const char* title, const io::Metadata& strings, std::ostream& out) {
  if (strings.empty()) return;
  Rows rows;
  for (const auto& [key, value] : strings) rows.push_back({printable(key), printable(value)});
  out << "\n" << title << "\n" << text_table(rows);
}

void print_state(const dist::TrainingState& state, std::ostream& out) {
  Rows rows{{"step", with_commas(state.step)},
            {"seed", std::to_string(state.seed)},
            {"samples drawn", with_commas(state.data_position)},
            {"schedule step", with_commas(state.schedule_step)},
            {"loss scale", text(state.loss_scale.scale)}};
  if (state.validation_loss) rows.push_back({"validation loss", text(*state.validation_loss)});
  out << text_table(rows);
}

/// The checkpoint's folder. Prints a note where it is not the one that was named.
std::string locate(const std::string& path, std::ostream& out) {
  const dist::FoundCheckpoint found = dist::locate_checkpoint(path);
  if (!found.note.empty()) out << found.note << "\n";
  return found.folder;
}

}  // namespace

void inspect_checkpoint(const std::string& path, std::ostream& out) {
  const dist::CheckpointReader reader(locate(path, out));
  const dist::CheckpointSummary summary = dist::inspect(reader);
  out << summary.folder << ": " << with_commas(summary.elements) << " elements in the model, "
      << byte_text(summary.bytes) << " in " << summary.files.size() << " files\n\n";
  print_state(summary.state, out);
  print_strings("model", summary.state.model, out);
  print_strings("run", summary.state.run, out);
  Rows files{{"file", "bytes", "chunks", "xxh3"}};
  for (const dist::FileSummary& file : summary.files)
    files.push_back(
        {file.name, with_commas(file.bytes), std::to_string(file.chunks), dist::hash_text(file.xxh3)});
  out << "\n" << text_table(files);
  Rows tensors{{"tensor", "shape", "dtype", "bytes", "files"}};
  for (const dist::TensorSummary& tensor : summary.tensors)
    tensors.push_back({to_string(tensor.id), to_string(tensor.shape), to_string(tensor.dtype),
                       with_commas(tensor.bytes),
                       tensor.files.size() == 1 ? tensor.files[0] : text(tensor.files.size(), " files")});
  out << "\n" << text_table(tensors);
}

void verify_checkpoint(const std::string& path, std::ostream& out) {
  const std::string folder = locate(path, out);
  const std::vector<dist::FileVerdict> verdicts = dist::verify_files(folder);
  int damaged = 0;
  for (const dist::FileVerdict& verdict : verdicts) {
    out << folder << "/" << verdict.name << ": " << (verdict.problem.empty() ? "good" : "damaged") << "\n";
    if (verdict.problem.empty()) continue;
    out << "  " << verdict.problem << "\n";
    ++damaged;
  }
  require<CheckpointError>(damaged == 0, folder, ": ", damaged, " of ", verdicts.size(), " files ",
                           damaged == 1 ? "is" : "are", " damaged");
  const dist::CheckpointReader reader(folder);
  out << folder << ": complete: " << reader.tensors().size() << " tensors at step " << reader.state().step
      << "\n";
}

void consolidate_checkpoint(const std::string& path, const std::string& output, bool replaces,
                            std::ostream& out) {
  const dist::CheckpointReader reader(locate(path, out));
  std::error_code ignored;
  const bool exists = std::filesystem::exists(std::filesystem::symlink_status(output, ignored));
  require<ConfigError>(!exists || replaces || dist::is_consolidated(reader, output), "--out ", output,
                       ": a file is there that is not this model's: give another name, or --force to replace "
                       "it");
  const uint64_t hash = dist::consolidate(reader, output);
  out << output << ": the model of " << reader.folder() << ", xxh3 " << dist::hash_text(hash) << "\n";
}

}  // namespace tessera::tools
