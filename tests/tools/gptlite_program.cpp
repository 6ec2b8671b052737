#include "tests/tools/gptlite_program.h"

#include <json/json.h>

#include <algorithm>
#include <sstream>

#include "tools/gptlite/command_line.h"

Outcome gptlite(std::vector<std::string> arguments) {
  std::vector<const char*> argv{"gptlite"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out, err;
  const int status =
      tessera::gptlite::run_command_line(static_cast<int>(argv.size()), argv.data(), {out, false}, err);
  return {status, out.str(), err.str()};
}

std::vector<std::string> tiny_training(const std::string& out, std::vector<std::string> more) {
  const std::vector<std::pair<std::string, std::string>> defaults = {
      {"--dataset", "builtin"}, {"--n-layer", "1"},    {"--n-embd", "32"},      {"--n-head", "2"},
      {"--block-size", "16"},   {"--batch-size", "4"}, {"--warmup-steps", "2"}, {"--eval-interval", "0"},
      {"--threads", "1"},       {"--out", out}};
  std::vector<std::string> all{"train"};
  for (const auto& [flag, value] : defaults)
    if (std::find(more.begin(), more.end(), flag) == more.end()) all.insert(all.end(), {flag, value});
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

std::vector<std::pair<int64_t, double>> losses_of(const std::string& metrics) {
  std::vector<std::pair<int64_t, double>> losses;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    Json::Value object;
    std::istringstream text(line);
    std::string error;
    if (!Json::parseFromStream(Json::CharReaderBuilder(), text, &object, &error)) continue;  // cut by a kill
    if (object.isMember("loss")) losses.emplace_back(object["step"].asInt64(), object["loss"].asDouble());
  }
  return losses;
}

bool is_one_error_line(const std::string& err) {
  return err.rfind("gptlite: ", 0) == 0 && err.find('\n') == err.size() - 1;
}

std::map<std::string, std::string> snapshot(const std::string& folder) {
  std::map<std::string, std::string> files;
  if (!std::filesystem::exists(folder)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) files[entry.path().string()] = file_bytes(entry.path().string());
  return files;
}
