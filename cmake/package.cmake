# Debian packages: cpack -G DEB in the build folder (make deb). talon: the program and its service; libtalon1, by its SONAME: the
# shared library; libtalon-dev: what programs are compiled with; talon-heads: the draft heads of models/, and the image model.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME talon)
set(CPACK_PACKAGE_CONTACT "the Talon developers <talon@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Language models that answer faster without changing a token")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# Packages of programs that link libtalon.so depend on its package; a later one may add functions.
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_COMPONENTS_ALL heads)
set(CPACK_DEBIAN_HEADS_PACKAGE_NAME talon-heads)
set(CPACK_DEBIAN_HEADS_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_HEADS_PACKAGE_ARCHITECTURE all)
if(TARGET talon)
  list(APPEND CPACK_COMPONENTS_ALL program)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME talon)
  set(CPACK_DEBIAN_PROGRAM_PACKAGE_RECOMMENDS "talon-heads, python3-pip")  # which `talon pull` asks for models
endif()
if(TALON_LIBRARY)
  list(APPEND CPACK_COMPONENTS_ALL shared library)
  set(CPACK_DEBIAN_SHARED_PACKAGE_NAME libtalon${TALON_ABI_VERSION})
  set(CPACK_DEBIAN_SHARED_PACKAGE_SECTION libs)
  set(CPACK_DEBIAN_SHARED_PACKAGE_RECOMMENDS talon-heads)
  # A libtalon-dev without a package of the shared library may hold its files, under the same version: no Breaks can tell the two.
  set(CPACK_DEBIAN_SHARED_PACKAGE_REPLACES "libtalon-dev (<= 0.1.0)")
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME libtalon-dev)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libdevel)
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_SHLIBDEPS OFF)
  # The -dev packages are those of programs that link libtalon.a.
  set(CPACK_DEBIAN_LIBRARY_PACKAGE_DEPENDS "${CPACK_DEBIAN_SHARED_PACKAGE_NAME} (= ${PROJECT_VERSION}), \
libfmt-dev, libssl-dev, libzstd-dev, libsentencepiece-dev")
endif()
include(CPack)
