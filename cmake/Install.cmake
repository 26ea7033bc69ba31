# What `cmake --install` puts where. Component `program` is all that planning and running need (and what
# the wheel takes); component `development` is for C++ programs: find_package(heterplan CONFIG).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS heterplan RUNTIME DESTINATION bin COMPONENT program)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/lib/codegen/runtime/heterplan_runtime
  DESTINATION share/heterplan/runtime COMPONENT program
  FILES_MATCHING PATTERN "*.py" PATTERN py.typed PATTERN __pycache__ EXCLUDE)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/profiles DESTINATION share/heterplan COMPONENT program
  FILES_MATCHING PATTERN "*.yaml" PATTERN "*.json" PATTERN "measured/fidelity-*" EXCLUDE)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/docs/schemas DESTINATION share/heterplan COMPONENT program)
install(FILES ${CMAKE_SOURCE_DIR}/lib/ir/heterplan.proto DESTINATION share/heterplan
  COMPONENT program)

# heterplan_install_text(WHAT FILE): what `heterplan completion WHAT` prints.
function(heterplan_install_text what file)
  cmake_path(GET file PARENT_PATH folder)
  install(CODE "
    set(prefix \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
    file(MAKE_DIRECTORY \"\${prefix}/${folder}\")
    execute_process(COMMAND \"$<TARGET_FILE:heterplan>\" completion ${what}
      OUTPUT_FILE \"\${prefix}/${file}\" COMMAND_ERROR_IS_FATAL ANY)" COMPONENT program)
endfunction()
heterplan_install_text(man share/man/man1/heterplan.1)
heterplan_install_text(bash share/bash-completion/completions/heterplan)
heterplan_install_text(zsh share/zsh/site-functions/_heterplan)

# The wheel brings shared libraries along, in this folder. DT_RPATH, unlike DT_RUNPATH, holds for the
# libraries that those libraries need, too.
set_target_properties(heterplan PROPERTIES INSTALL_RPATH "$ORIGIN/../lib/heterplan")
target_link_options(heterplan PRIVATE LINKER:--disable-new-dtags)

set(libraries heterplan_options heterplan_support heterplan_proto heterplan_ir heterplan_onnx
  heterplan_cost heterplan_linear heterplan_balance heterplan_search heterplan_verify
  heterplan_jobs heterplan_codegen)
install(TARGETS ${libraries} EXPORT heterplanTargets
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/heterplan COMPONENT development)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/lib/ DESTINATION include/heterplan COMPONENT development
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def" PATTERN runtime EXCLUDE PATTERN kernels EXCLUDE)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/heterplan)
install(EXPORT heterplanTargets NAMESPACE heterplan:: DESTINATION ${package}
  COMPONENT development)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/heterplanConfig.cmake.in
  ${CMAKE_BINARY_DIR}/heterplanConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/heterplanConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/heterplanConfig.cmake
  ${CMAKE_BINARY_DIR}/heterplanConfigVersion.cmake
  DESTINATION ${package} COMPONENT development)
