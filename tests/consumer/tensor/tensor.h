// A user's own header, on the include path under a name that the library has too.
#pragma once

inline const char* name_of_this_project() {
  return "consumer";
}
