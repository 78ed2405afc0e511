#pragma once

#include <string>
#include <vector>

#include "client.h"

// Requests of all kinds, and what their answers say whole or streamed.
namespace talon::test {

struct CrowdRequest {
  std::string path;
  Json body;
  bool streams = false;
  bool leaves = false;   // one that asks the same goes away at once, before it
  bool is_slow = false;  // reads the answer some time after it has been written
};

/// Completions and chats with every sampler, grammar, tool and length up to the whole context.
std::vector<CrowdRequest> crowd_requests(int count);

/// Of every choice: text, calls, why it ended and its tokens' log-probabilities. The same for a
/// stream and a whole answer; a text that begins with `refused` for errors.
Json said(const Reply& reply, bool streams);

}  // namespace talon::test
