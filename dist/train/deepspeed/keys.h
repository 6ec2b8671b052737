#pragma once  // not in tessera.h

#include <span>
#include <string>
#include <string_view>

namespace tessera::training::deepspeed {

/// What a value of a key must be.
enum class Kind {
  flag,     ///< true or false
  integer,  ///< a whole number; 2e8 is one
  number,
  text,
  list,
  table,  ///< with keys that have rows of their own
  free    ///< a table or value of any form: what lies below has no rows
};

/// What a key does here.
enum class Effect {
  honoured,  ///< it has its meaning
  accepted,  ///< any value is right, and changes nothing: `note` says why
  neutral,  ///< accepted with `neutral`, the value that asks for nothing; another one is refused: `note` says
            ///< why
  refused   ///< the key itself is refused: `note` says why
};

/// A key of DeepSpeed's configuration.
struct Key {
  const char* path;           ///< "zero_optimization.stage"
  Kind kind;                  ///< of its values
  Effect effect;              ///< what it does here
  const char* standard = "";  ///< DeepSpeed's default as JSON; "" where it has none
  const char* field = "";     ///< the field of TrainingConfig that it sets; "" for one read by itself
  const char* note = "";      ///< the reason, or what it sets
  bool may_be_auto = false;   ///< whether "auto" is a value: then the program's value holds
  /// Where kind is `neutral`: the accepted value as JSON, when it is not the default.
  const char* neutral = nullptr;
};

/// Every key of DeepSpeed 0.19's documentation of the configuration
/// (https://www.deepspeed.ai/docs/config-json/), and those of its ZeRO, fp16 and bf16 blocks that the code
/// alone names. In the order of that page; the keys of a block follow its own row.
std::span<const Key> keys();

/// The row of a path; null where there is none.
const Key* find_key(std::string_view path);

/// The table as a page in Markdown: key, default, and what happens to it.
std::string keys_page();

}  // namespace tessera::training::deepspeed
