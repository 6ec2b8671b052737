#include "tools/gptlite/prompts.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "tensor/error.h"

namespace tessera::gptlite {
namespace {

/// The ids in a prompt such as "12 7 301". `name` is what errors call it.
std::vector<int64_t> parse_ids(const std::string& prompt, int64_t vocabulary, const std::string& name) {
  std::vector<int64_t> ids;
  std::istringstream stream(prompt);
  for (int64_t id; stream >> id;) {
    require<ConfigError>(id >= 0 && id < vocabulary, name, ": id ", id, " is outside the vocabulary of ",
                         vocabulary);
    ids.push_back(id);
  }
  require<ConfigError>(stream.eof() && !ids.empty(), name, " '", prompt,
                       "': this model was trained on ids: expected ids with spaces between them");
  return ids;
}

std::vector<int64_t> ids_of(const std::string& prompt, const SavedRun& saved, const std::string& name) {
  if (!saved.vocabulary()) return parse_ids(prompt, saved.run().preset.model.vocabulary, name);
  require<ConfigError>(!prompt.empty(), name, " is empty: expected at least one character");
  try {
    const std::vector<uint16_t> ids = saved.vocabulary()->encode(prompt, name);
    return {ids.begin(), ids.end()};
  } catch (const DataError& error) {
    throw ConfigError(error.what());
  }
}

/// A line break, or the first id where the model has none.
std::vector<int64_t> default_ids(const SavedRun& saved) {
  if (!saved.vocabulary() || !saved.vocabulary()->contains(U'\n')) return {0};
  return ids_of("\n", saved, "--prompt");
}

std::vector<Prompt> lines_of(const std::string& file, const SavedRun& saved) {
  std::ifstream stream(file);
  require<ConfigError>(stream.is_open(), "--prompts '", file, "': cannot be opened: ", std::strerror(errno));
  std::vector<Prompt> prompts;
  for (std::string line; std::getline(stream, line);) {
    const std::string name = text("--prompts '", file, "', line ", prompts.size() + 1);
    prompts.push_back({line, ids_of(line, saved, name)});
  }
  require<ConfigError>(!stream.bad(), "--prompts '", file, "': cannot be read: ", std::strerror(errno));
  require<ConfigError>(!prompts.empty(), "--prompts '", file, "' is empty: expected a prompt in each line");
  return prompts;
}

}  // namespace

std::vector<Prompt> read_prompts(const training::Resolved<SampleOptions>& given, const SavedRun& saved) {
  require<ConfigError>(!given.is_given("prompt") || !given.is_given("prompts"),
                       "--prompt and --prompts: expected one of them");
  std::vector<Prompt> distinct;
  if (given.is_given("prompts"))
    distinct = lines_of(given->prompts, saved);
  else if (given.is_given("prompt"))
    distinct.push_back({given->prompt, ids_of(given->prompt, saved, "--prompt")});
  else
    distinct.push_back({"", default_ids(saved)});
  std::vector<Prompt> all;
  for (const Prompt& prompt : distinct) all.insert(all.end(), static_cast<size_t>(given->batch), prompt);
  return all;
}

std::vector<int64_t> stop_ids(const std::string& stop, const SavedRun& saved) {
  return stop.empty() ? std::vector<int64_t>() : ids_of(stop, saved, "--stop");
}

}  // namespace tessera::gptlite
