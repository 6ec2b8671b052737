#pragma once

#include <exception>

namespace tessera::dist {

/// Makes exceptions that leave `main` one line of the whole run: `error: rank 2 of 4: ` and the message of
/// the rank that threw first. Returns true.
bool install_rank_reporter();

/// Notes that `exception` left the body of a virtual rank, so that its line names the rank.
void note_rank_of(const std::exception_ptr& exception, int rank, int size);

}  // namespace tessera::dist
