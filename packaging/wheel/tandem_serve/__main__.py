from tandem_serve import main

main()
