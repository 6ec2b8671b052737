// A user's header, on the include path, with a name that the library has too.
#pragma once

inline const char* name_of_this_project() {
  return "consumer";
}
