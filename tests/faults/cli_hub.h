#pragma once

#include <map>
#include <string>
#include <vector>

#include "cli_process.h"
#include "cli_server.h"

namespace talon::test {

using Files = std::map<std::string, std::string>;  // contents by path, or by request target

/// What a repository is at a branch, a tag or a commit.
struct Revision {
  std::string name = "main";  // as it stands in addresses
  std::string commit = "0123abcd";
};

/// What a hub answers for OWNER/NAME with these files at that revision.
Files repository(const std::string& name, const Files& files, const Revision& revision = {});

/// The files in a folder by their names, but what `talon pull` notes there.
Files files_in(const std::string& folder);

/// `talon pull NAME` from that hub into `models`, with further arguments and NAME=VALUE.
Outcome pull(const FileServer& hub, const Folder& models, const std::string& name,
             const std::vector<std::string>& more = {},
             const std::vector<std::string>& environment = {});

/// What `talon inspect` finds in JSON; it has to succeed.
std::string inspected(const Folder& models, const std::string& what,
                      const std::vector<std::string>& more = {});

}  // namespace talon::test
