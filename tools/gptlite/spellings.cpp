#include "tools/gptlite/spellings.h"

#include <utility>

namespace tessera::gptlite {

std::vector<std::string> with_own_spellings(int argc, const char* const* argv) {
  constexpr std::pair<std::string_view, std::string_view> spellings[] = {
      {"--pipeline_num_stages", "--pipeline-stages"},
      {"--pipeline-parallel-size", "--pipeline-stages"},
      {"--activation_checkpoint_interval", "--activation-checkpoint-interval"}};
  std::vector<std::string> arguments;
  for (int i = 0; i < argc; ++i) {
    std::string argument = argv[i];
    if (argument == "--pipeline_spec_layers") continue;
    const std::string name = argument.substr(0, argument.find('='));
    for (const auto& [other, own] : spellings)
      if (name == other) argument.replace(0, name.size(), own);
    arguments.push_back(std::move(argument));
  }
  return arguments;
}

}  // namespace tessera::gptlite
